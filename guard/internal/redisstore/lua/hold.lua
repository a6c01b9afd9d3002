-- The format of a lock in Redis (internal/docs/protocol.md). Every script that writes it includes this file. Times are
-- numbers of µs, below 2^53.
local forget = 60000         -- ms for which the queue and the tombstones live
local any = 9007199254740991 -- the limit of an owner that tolerates any number

-- server_time returns the time of the server (µs).
local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- number writes a whole number down.
local function number(n)
  return string.format('%.0f', n)
end

-- decode reads a holder's field of the lock's hash. It returns nil if that is none.
local function decode(value)
  local depth, fence, lease, flags, meta = string.match(value or '', '^(%d+) (%d+) (%d+) (%S+) (.*)$')
  if depth then
    local since = tonumber(string.match(flags, 'a(%d+)') or fence)
    return {depth = depth, fence = tonumber(fence), since = since, ends = since + lease * 1000, meta = meta,
      flags = flags == '-' and '' or flags, revoked = string.find(flags, 'r', 1, true)}
  end
end

-- encode writes a holder's field. The lease (ms) counts from the grant.
local function encode(hold)
  local lease, flags = math.ceil((hold.ends - hold.since) / 1000), hold.flags == '' and '-' or hold.flags
  return table.concat({hold.depth, number(hold.fence), number(lease), flags, hold.meta}, ' ')
end

-- limit_of returns how many holders an owner tolerates, itself included. Its token has the number:
-- <instance>-<limit>.<number>, where 0 is any number; all others are exclusive.
local function limit_of(owner)
  local limit = tonumber(string.match(owner, '^[^-]*%-(%d+)%.') or 1)
  return limit == 0 and any or limit
end

-- expire gives a key that was just written a ttl. If Redis refuses that, another command takes the write
-- back: no key may stay for ever.
local function expire(key, ms, ...)
  local set = redis.pcall('PEXPIRE', key, number(ms))
  if type(set) == 'table' then
    redis.pcall(...)
    error(set.err, 0)
  end
end

-- write gives a lock a ttl, by the command expires, and writes a hold into it. Expiry comes first: Redis lets a script
-- write although memory is full if its first write needs none. If the server's clock is set in between, Redis may take
-- the lock for expired, and HSET makes it anew: then the lock needs its ttl again.
local function write(lock, owner, hold, expires, when)
  redis.call(expires, lock, number(when))
  if redis.call('HSET', lock, owner, encode(hold)) == 1 then
    redis.call(expires, lock, number(when))
  end
end

-- extend writes a hold with its ttl (ms) from now at least.
local function extend(lock, holders, owner, hold, ttl, at)
  hold.ends = math.max(hold.ends, at + ttl * 1000)
  if limit_of(owner) == 1 then
    write(lock, owner, hold, 'PEXPIREAT', math.ceil(hold.ends / 1000))
  else
    local life = math.max(redis.call('PTTL', lock), ttl)
    write(lock, owner, hold, 'PEXPIRE', life)
    redis.call('ZADD', holders, number(hold.ends), owner)
    redis.call('PEXPIRE', holders, number(life))
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

-- bury leaves a tombstone: from now on, acquires of the owner are refused. It deletes old ones first, which also lets
-- the script write when memory is full.
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
