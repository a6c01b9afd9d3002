-- acquire: take a free lock, confirm a hold or a grant, or wait in the queue.
--
-- KEYS  1 lock, 2 queue, 3 last, 4 seen (see queue)
-- ARGV  1 owner, 2 channels, 3 counts (see queue), 4 ttl (ms), 5 metadata,
--       6 1 to be queued if the lock is busy, 7 place (0 = none yet), 8 fence floor
-- reply {1, fence}  the owner holds the lock
--       {0, remaining ttl (ms), metadata, place, in front}  another one does; place is 0
--             if the owner is not queued
--       {-1}  the owner is over: a late command, nothing changed
local ttl, meta, wants = tonumber(ARGV[4]), ARGV[5], ARGV[6] == '1'
local place, floor = tonumber(ARGV[7]), tonumber(ARGV[8])
if not ttl or ttl < 1 or not place or not floor then
  return redis.error_reply('ERR guard: ttl, place and floor must be numbers, ttl at least 1')
end

if redis.call('EXISTS', lock, queue) == 0 then
  local fence = take(owner, ttl, meta, micros(), floor)
  return fence and {1, fence} or {-1}
end

local had = redis.call('ZSCORE', queue, owner)
local last = redis.call('GET', KEYS[3])
if had and tonumber(had) < 0 or names(last, owner) then
  return {-1}
end

local hold = redis.call('HMGET', lock, owner, '@fence', '@meta')
if hold[1] then
  if hold[3] ~= meta then
    redis.call('HDEL', lock, '@meta')
    redis.call('HSET', lock, '@meta', meta)
  end
  if redis.call('PTTL', lock) < ttl then
    redis.call('PEXPIRE', lock, ARGV[4])
  end
  return {1, hold[2]}
end

local at = micros()
local front = 0
if wants then
  place, front = join(owner, place, at)
else
  place = 0
end
if not hold[2] then
  -- Free, but others may have waited longer: the holder crashed, or never came for it.
  local who, fence = grant(owner, ttl, meta, at, floor)
  if who == owner then
    return {1, fence}
  end
  if not who and not wants and not first() then
    return {1, take(owner, ttl, meta, at, floor)}
  end
  front = math.max(front - 1, 0)
end
return {0, redis.call('PTTL', lock), hold[3] or '', whole(place), front}
