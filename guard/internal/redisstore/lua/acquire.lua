-- acquire: take free locks, join holders that share a lock, confirm a hold or a grant, or wait in the queue.
-- One call takes any number of claims. A claim with a record goes by itself: see record.lua.
--
-- KEYS  of each claim: lock, queue, ended, seen, holders
-- ARGV  channels; of each claim: owner, ttl (ms), metadata, what it wants
-- The values and the replies are in internal/docs/protocol.md. nil: nothing was done, send the claim by itself.
local clock, begin -- the server's time, as text; for a claim with a record: see record.lua
local function now()
  if not clock then
    local time = redis.call('TIME')
    clock = time[1] .. string.sub('00000' .. time[2], -6)
  end
  return clock
end

-- held is the reply to an owner that has the lock.
local function held(fence)
  return 'held ' .. fence .. ' ' .. clock .. (begin and ' ' .. begin(fence) or '')
end

if #KEYS == 6 then
  -- include record
end

local replies = {}
for i = 1, #KEYS / 5 do
  local lock, owner, ttl, meta, wants = KEYS[5 * i - 4], ARGV[4 * i - 2], ARGV[4 * i - 1], ARGV[4 * i], ARGV[4 * i + 1]
  local known = not string.find(wants, ' ', 1, true) and redis.call('EXISTS', lock, KEYS[5 * i - 3], KEYS[5 * i - 2])
  replies[i] = false
  -- The lock is free, and nothing is known that its next holder must respect. The long way says why Redis refuses it.
  if known == 0 and redis.pcall('HSET', lock, owner, '1 ' .. now() .. ' ' .. ttl .. ' - ' .. meta) == 1 then
    if redis.pcall('PEXPIRE', lock, ttl) == 1 then
      replies[i] = held(clock)
    else
      redis.pcall('DEL', lock)
    end
  end
end
if #replies > 1 or replies[1] then
  return replies
end

local at = tonumber(now()) -- from here on, a claim that goes by itself: the long way
-- include hold
-- include lock

local owner, ttl, meta = ARGV[2], tonumber(ARGV[3]), ARGV[4]
local place, mark, above = string.match(ARGV[5], '^(%d*)(%-?) ?(%d*)$')
place, above = tonumber(place), tonumber(above) or 0 -- no place: the owner does not wait

-- busy is the reply to an owner that did not get in. Who can share the lock waits for the first that leaves.
local function busy(found, queued, front)
  local hold = found.hold
  if not hold then
    local next = limit_of(owner) > 1 and redis.call('ZRANGEBYSCORE', holders, '(0', '+inf', 'LIMIT', 0, 1)
      or redis.call('ZREVRANGE', holders, 0, 0)
    hold = next[1] and decode(redis.call('HGET', lock, next[1]))
  end
  local left = hold and math.max(math.ceil((hold.ends - at) / 1000), 0) or math.max(redis.call('PTTL', lock), -1)
  return {table.concat({'busy', number(left), number(queued), number(front), found.limit == any and '0' or number(found.limit),
    hold and hold.depth == '0' and '1' or '0', hold and hold.meta or ''}, ' ')}
end

-- confirm is for an owner that holds the lock, or was granted it.
local function confirm(found)
  local hold = found.mine
  if hold.depth == '0' or hold.revoked then
    return {'ended'}
  elseif hold.fence <= above then -- the call that granted it did not know what its fence must be above
    local fence, ahead = new_fence(found, above)
    hold.fence, hold.since, hold.flags = fence, at, (string.find(hold.flags, 'w', 1, true) and 'w' or '') .. ahead
    found.fence = fence
    if limit_of(owner) > 1 then
      redis.call('HSET', lock, '@fence', number(fence))
    end
  end
  hold.meta = meta
  extend(lock, holders, owner, hold, ttl, at)
  if limit_of(owner) > 1 then
    grant_waiting(found, 0, {})
  end
  return {held(number(hold.fence))}
end

-- join puts the owner into the queue: at the lower of the place that it has and the place that it brings, else
-- at the end. It returns the place, and how many owners are in front.
local function join(found)
  local had = tonumber(redis.call('ZSCORE', queue, owner) or math.huge)
  local queued = math.min(had, place ~= 0 and place or math.huge)
  if queued == math.huge then
    local last = redis.call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')[2]
    queued = math.max(at, last and last + 1 or 0)
  end
  redis.call('HSET', seen, owner, clock .. mark)
  expire(seen, forget, 'HDEL', seen, owner)
  redis.call('ZADD', queue, number(queued), owner)
  expire(queue, forget, 'ZREM', queue, owner)
  local hold = found.hold
  if hold and not string.find(hold.flags, 'w', 1, true) then
    hold.flags = hold.flags .. 'w'
    redis.call('HSET', lock, found.owner, encode(hold))
  end
  return queued, redis.call('ZRANK', queue, owner)
end

local found, hold = inside(owner), nil
if found.mine then
  return confirm(found)
end
if redis.call('ZSCORE', ended, owner) then
  return {'ended'}
elseif has_room(found, owner) and redis.call('ZCARD', queue) == 0 then
  found, hold = admit(found, owner, ttl, meta, above)
  return {held(number(hold.fence))}
end
local queued, front = 0, 0
if place then
  queued, front = join(found)
end
if found.limit > 1 then
  found, hold = grant_waiting(found, above, {owner = owner, ttl = ttl, meta = meta})
  if not place and has_room(found, owner) and redis.call('ZCARD', queue) == 0 then
    found, hold = admit(found, owner, ttl, meta, above)
  end
  if hold then
    return {held(number(hold.fence))}
  end
  front = place and redis.call('ZRANK', queue, owner) or 0
end
return busy(found, queued, front)
