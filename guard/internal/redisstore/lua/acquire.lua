-- acquire: take free locks, join holders that share a lock, confirm a hold or a grant, or wait in the queue.
-- One call takes any number of claims.
--
-- KEYS  of each claim: lock, queue, ended, seen, holders (internal/docs/protocol.md)
-- ARGV  channels: 1 if PUBLISH counts every receiver, else 0; then their prefix
--       of each claim: owner, ttl (ms), metadata, and what it wants: "0" to wait if it must, "u" to do so without a
--       subscription, "-" to go if it must, which is all of a plain exclusive claim. Else "<place> <above> <mark>": its place in
--       the queue ("-": do not wait, 0: none yet); what its fence must be above; "u" if it has no subscription, else "-"
--       A claim with a record goes by itself, and has one key and three arguments more: see record.lua
-- reply of each claim, in order, words:
--       held <fence> <clock (µs)> <fence of the owner that began before, with a record>; after another clock
--         than the fence, and a record, only
--       busy <remaining ttl (ms; -1: no end)> <place (0: not queued)> <how many are in front> <strictest limit inside
--         (0: any number)> <1 if only a MinHold keeps it> <metadata>
--       ended         the owner has, or its hold was revoked: nothing changed
--       recorded …    see record.lua
--       nil           nothing was done: send it by itself
local keys, args, call = KEYS, ARGV, redis.call
local clock, begin -- the server's, as text; what writes that the owner of a record began
if #keys == 6 then
  -- include record
end

local replies, left, a = {}, nil, 2
for k = 1, #keys - 4, 5 do
  local lock, ttl, found = keys[k], args[a + 1], nil
  if #args[a + 3] == 1 then
    found = call('EXISTS', lock, keys[k + 1], keys[k + 2])
  end
  if found == 0 then
    -- The lock is free, and nothing is known that its next holder must respect.
    if not clock then
      local time = call('TIME')
      clock = time[1] .. string.sub('00000' .. time[2], -6)
    end
    local set = redis.pcall('HSET', lock, args[a], '1 ' .. clock .. ' ' .. ttl .. ' - ' .. args[a + 2])
    if set == 1 then
      set = redis.pcall('PEXPIRE', lock, ttl)
      if set ~= 1 then
        redis.pcall('DEL', lock)
      end
    end
    replies[#replies + 1] = set ~= 1 and set or 'held ' .. clock .. (begin and ' ' .. clock .. ' ' .. begin(clock) or '')
  else
    left = left or {}
    replies[#replies + 1] = false
    left[#left + 1] = {#replies, found}
  end
  a = a + 4
end
if not left then
  return replies
end

-- include hold
-- include lock

if not clock then
  local time = call('TIME')
  clock = time[1] .. string.sub('00000' .. time[2], -6)
end
local at = tonumber(clock)

local function held(hold)
  local fence = number(hold.fence)
  return 'held ' .. fence .. ' ' .. clock .. (begin and ' ' .. begin(fence) or '')
end

-- busy is the reply to an owner that did not get in. Who can share the lock waits for the first that leaves.
local function busy(key, found, owner, place, front)
  local hold, left = found.hold, nil
  if not hold and found.count > 0 then
    local next = limit_of(owner) > 1 and redis.call('ZRANGEBYSCORE', key.holders, '(0', '+inf', 'LIMIT', 0, 1)
      or redis.call('ZREVRANGE', key.holders, 0, 0)
    hold = next[1] and decode(redis.call('HGET', key.lock, next[1]))
  end
  if hold then
    left = math.max(math.ceil((hold.ends - at) / 1000), 0)
  else
    left = math.max(redis.call('PTTL', key.lock), -1)
  end
  return table.concat({'busy', number(left), number(place), number(front), found.limit == math.huge and '0' or number(found.limit),
    hold and hold.depth == '0' and '1' or '0', hold and hold.meta or ''}, ' ')
end

-- confirm is for an owner that holds the lock, or was granted it. The server that granted it may not have
-- known what its fence must be above.
local function confirm(key, found, owner, ttl, meta, above)
  local hold = found.mine
  if hold.fence <= above then
    hold.fence, hold.since = new_fence(key, found, above, at), at
    hold.flags = string.find(hold.flags, 'w', 1, true) and 'w' or '-'
    if hold.fence > at then
      hold.flags = flagged(hold.flags, 'a' .. clock)
    end
  end
  hold.meta, hold.ends = meta, math.max(hold.ends, at + ttl * 1000)
  if limit_of(owner) == 1 then
    redis.call('PEXPIREAT', key.lock, number(math.ceil(hold.ends / 1000)))
    redis.call('HSET', key.lock, owner, encode(hold))
    return held(hold)
  end
  extend(key, ttl)
  found.fence = math.max(found.fence, hold.fence)
  redis.call('HSET', key.lock, owner, encode(hold), '@fence', number(found.fence))
  redis.call('ZADD', key.holders, number(hold.ends), owner)
  if redis.call('ZCARD', key.queue) > 0 then
    grant_waiting(key, found, at, 0, {})
  end
  return held(hold)
end

-- join puts an owner into the queue: at the lower of the place that it has and the place that it brings, else
-- at the end. It returns the place, and how many owners are in front.
local function join(key, found, owner, had, place, mark, waiting)
  if had and (place == 0 or had <= place) then
    place = had
  elseif place == 0 then
    local last = waiting and redis.call('ZREVRANGE', key.queue, 0, 0, 'WITHSCORES')[2]
    place = math.max(at, last and last + 1 or 0)
  end
  redis.call('HSET', key.seen, owner, clock .. mark)
  expire(key.seen, forget, 'HDEL', key.seen, owner)
  if place ~= had then
    redis.call('ZADD', key.queue, number(place), owner)
  end
  expire(key.queue, forget, 'ZREM', key.queue, owner)
  local hold = found.hold
  if hold and not string.find(hold.flags, 'w', 1, true) then
    hold.flags = flagged(hold.flags, 'w')
    redis.call('HSET', key.lock, found.owner, encode(hold))
  end
  return place, waiting and redis.call('ZRANK', key.queue, owner) or 0
end

-- acquire is the long way. known is how many of lock, queue and ended there are, or nil.
local function acquire(key, owner, ttl, meta, wants, known)
  local place, above, mark = string.match(wants, '^(%S+) ?(%d*) ?([-u]?)$')
  if place == 'u' then
    place, mark = '0', 'u'
  end
  above, mark = tonumber(above) or 0, mark == 'u' and '-' or ''
  local found = inside(key, owner, at)
  local hold = found.mine
  if hold then
    if hold.depth == '0' or hold.revoked then
      return 'ended'
    end
    return confirm(key, found, owner, ttl, meta, above)
  end
  local alone = known == math.min(found.count, 1) -- no owner waits, and ended is empty
  local had = not alone and place ~= '-' and tonumber(redis.call('ZSCORE', key.queue, owner) or nil)
  if not alone and not had and redis.call('ZSCORE', key.ended, owner) then
    return 'ended'
  end
  if not had and has_room(found, owner) and (alone or redis.call('ZCARD', key.queue) == 0) then
    found, hold = admit(key, found, owner, ttl, meta, above, at)
    return held(hold)
  end
  local queued, front = 0, 0
  if place ~= '-' then
    queued, front = join(key, found, owner, had, tonumber(place), mark, not alone)
  end
  if found.limit > 1 then
    found, hold = grant_waiting(key, found, at, above, {owner = owner, ttl = ttl, meta = meta})
    if place == '-' and has_room(found, owner) and redis.call('ZCARD', key.queue) == 0 then
      found, hold = admit(key, found, owner, ttl, meta, above, at)
    end
    if hold then
      return held(hold)
    end
    front = place ~= '-' and redis.call('ZRANK', key.queue, owner) or 0
  end
  return busy(key, found, owner, queued, front)
end

for n = 1, math.min(#left, 8) do
  local i, known = unpack(left[n])
  if n > 1 then
    known = nil -- the claims before it may have queued, or got in, for the same key
  end
  a = 4 * i - 2
  replies[i] = attempt(acquire, keys_of(keys, 5 * i - 4), args[a], tonumber(args[a + 1]), args[a + 2], args[a + 3], known)
end
return replies
