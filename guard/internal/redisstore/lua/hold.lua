-- What Redis has of a lock (internal/docs/protocol.md): every script that writes it begins here. Times are numbers of
-- µs, and below 2^53.
local forget = 60000 -- ms for which the queue, and what is known of owners that ended, lives

-- number writes a whole number down.
local function number(n)
  return string.format('%.0f', n)
end

-- decode reads a holder's field of the lock's hash. It returns nil if that is none.
local function decode(value)
  local depth, fence, lease, flags, meta = string.match(value or '', '^(%d+) (%d+) (%d+) (%S+) (.*)$')
  if depth then
    local since = tonumber(string.match(flags, 'a(%d+)') or fence)
    return {depth = depth, fence = tonumber(fence), since = since, ends = since + lease * 1000, flags = flags, meta = meta,
      revoked = string.find(flags, 'r', 1, true)}
  end
end

-- encode is what the lock's hash is to have of a holder: its lease counts from the grant (ms). That is its fence, if
-- that was not ahead of the clock.
local function encode(hold)
  local lease = math.ceil((hold.ends - hold.since) / 1000)
  return hold.depth .. ' ' .. number(hold.fence) .. ' ' .. number(lease) .. ' ' .. hold.flags .. ' ' .. hold.meta
end

-- flagged returns flags with one more.
local function flagged(flags, flag)
  return (flags == '-' and '' or flags) .. flag
end

-- limit_of returns how many holders an owner tolerates, itself included. Its token has the number:
-- <instance>-<limit>.<number>, where 0 is any number; all others are exclusive.
local function limit_of(owner)
  local limit = tonumber(string.match(owner, '^[^-]*%-(%d+)%.') or 1)
  return limit == 0 and math.huge or limit
end

-- expire gives a key that was just written a ttl. If Redis refuses that, another command takes the write
-- back: nothing may stay for ever.
local function expire(key, ms, ...)
  local set = redis.pcall('PEXPIRE', key, number(ms))
  if type(set) == 'table' then
    redis.pcall(...)
    error(set.err, 0)
  end
end

-- note adds to the key ended, for a time (ms): an owner that has ended, or the highest fence.
local function note(ended, member, score, ms)
  redis.call('ZADD', ended, 'GT', number(score), member)
  expire(ended, math.max(redis.call('PTTL', ended), ms), 'ZREM', ended, member)
end

-- remember keeps a fence that is ahead of the clock until the clock has caught up, so that the next fences are above it.
-- It lives a second longer: Redis counts a ttl from the beginning of the script, which is before at.
local function remember(ended, fence, at)
  if fence > at then
    note(ended, '@fence', fence, math.ceil((fence - at) / 1000) + 1000)
  end
end

-- bury has an owner be refused from now on. What is over is swept out first. A script may write although
-- memory is full if its first write frees some.
local function bury(ended, owner, at)
  redis.call('ZREMRANGEBYSCORE', ended, '-inf', number(at))
  note(ended, owner, at + forget * 1000, forget)
end

-- remove takes holders out of a lock, and deletes it with the last of them.
local function remove(lock, holders, owners)
  if limit_of(owners[1]) > 1 then
    local index = {}
    for i, owner in ipairs(owners) do
      index[2 * i - 1], index[2 * i] = owner, 'limit ' .. owner
    end
    local fields = redis.call('HLEN', lock) -- one is @fence
    redis.call('ZREM', holders, unpack(index))
    if fields - redis.call('HDEL', lock, unpack(owners)) > 1 then
      return
    end
  end
  redis.call('DEL', lock, holders)
end
