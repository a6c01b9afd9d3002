-- acquire: take a free lock, confirm a hold or a grant, or wait in the queue.
--
-- KEYS  1 lock   hash    <owner> -> depth, @fence, @meta; has a ttl; absent = free
--       2 queue  zset    waiting owners by place (µs of server time); owners that are
--                        over by -(µs at which that is forgotten)
--       3 last   string  "<highest fence> <owner that released last>"
--       4 seen   hash    <owner> -> when it last asked (µs)
-- ARGV  1 owner, 2 prefix of the channels, 3 1 if PUBLISH counts every receiver,
--       4 ttl (ms), 5 metadata, 6 how long to remember the fence (ms), 7 1 to be queued
--       if the lock is busy, 8 place (0 = none yet), 9 what the fence must be above
-- reply {1, fence}  the owner holds the lock
--       {0, remaining ttl (ms), metadata, place, in front}  another one does; place is 0
--             if the owner is not queued
--       {-1}  the owner is over: a late command, nothing changed
local owner, ttl, meta, keep, above = ARGV[1], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[9])
if not (tonumber(ttl) and tonumber(keep) and tonumber(ARGV[8]) and above) or tonumber(ttl) < 1 then
  return redis.error_reply('ERR guard: ttl, keep, place and above must be numbers, ttl at least 1')
end
-- include take

if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local time = redis.call('TIME')
  local fence = take(owner, ttl, meta, time[1] * 1000000 + time[2], above, keep)
  return fence and {1, fence} or {-1}
end
-- include queue

if over(owner) then
  return {-1}
end
local hold = redis.call('HMGET', KEYS[1], owner, '@fence', '@meta')
if hold[1] then
  if hold[3] ~= meta then
    redis.call('HDEL', KEYS[1], '@meta')
    redis.call('HSET', KEYS[1], '@meta', meta)
  end
  if redis.call('PTTL', KEYS[1]) < tonumber(ttl) then
    redis.call('PEXPIRE', KEYS[1], ttl)
  end
  return {1, hold[2]}
end

local wants, place, at = ARGV[7] == '1', 0, micros()
if wants then
  place = join(owner, tonumber(ARGV[8]), at)
end
if not hold[2] then
  -- Free, but others may have waited longer: the holder crashed, or never came for it.
  local who, fence = grant(owner, ttl, meta, at, above, keep)
  if who == owner then
    return {1, fence}
  end
  if not who and not wants and not first() then
    return {1, take(owner, ttl, meta, at, above, keep)}
  end
end
return {0, redis.call('PTTL', KEYS[1]), hold[3] or '', whole(place), wants and front(place) or 0}
