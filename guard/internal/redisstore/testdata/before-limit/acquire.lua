-- acquire: take a free lock, confirm a hold or a grant, or wait in the queue.
--
-- KEYS  1 lock   hash    <owner> -> depth, @fence, @meta, @ahead if last lives for longer
--                        than usual; has a ttl; absent = free
--       2 queue  zset    waiting owners by place (µs of server time); owners that are
--                        over by -(µs at which that is forgotten)
--       3 last   string  "<highest fence> <owner that released last>"
--       4 seen   hash    <owner> -> when it last asked (µs), + if it knows that it is one
--                        of the first two
-- ARGV  1 owner, 2 prefix of the channels, after a 1 if PUBLISH counts every receiver,
--       3 ttl (ms), 4 place ('' = not to be queued if the lock is busy, 0 = none yet),
--       5 metadata, 6 what the fence must be above
-- reply {1, fence}  the owner holds the lock
--       {0, remaining ttl (ms), metadata, place, in front}  another one does; place is 0
--             if the owner is not queued
--       {-1}  the owner is over: a late command, nothing changed
local owner, ttl, meta, above = ARGV[1], tonumber(ARGV[3]), ARGV[5], ARGV[6]
if not ttl or ttl < 1 or above ~= '0' and not string.find(above, '^%d+$') or not string.find(ARGV[4], '^%d*$') then
  return redis.error_reply('ERR guard: ttl, place and above must be numbers, ttl at least 1')
end
-- include take

if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local fence = take(KEYS[1], KEYS[3], owner, ttl, meta, stamp(), above)
  return fence and {1, fence} or {-1}
end

local hold = redis.call('HMGET', KEYS[1], owner, '@fence', '@meta')
if hold[1] and not less(above, hold[2]) then
  -- Whoever granted it did not know what its fence must be above.
  return {1, take(KEYS[1], KEYS[3], owner, ttl, meta, stamp(), above)}
end
if hold[1] then
  if (hold[3] or '') ~= meta then
    redis.call('HDEL', KEYS[1], '@meta')
    redis.call('HSET', KEYS[1], '@meta', meta)
  end
  if redis.call('PTTL', KEYS[1]) < ttl then
    redis.call('PEXPIRE', KEYS[1], ttl)
  end
  return {1, hold[2]}
end
-- include queue

local place = redis.call('ZSCORE', queue, owner)
if buried(owner, place) or (not hold[2] and released(owner)) then
  return {-1}
end
local wants, at, front = ARGV[4] ~= '', stamp(), 0
if wants then
  place, front = join(owner, place, ARGV[4], at)
end
if not hold[2] then
  -- Free, but others may have waited longer: the holder crashed, or never came for it.
  local who, fence = grant(owner, ttl, meta, at, above)
  if who == owner then
    return {1, fence}
  end
  if not who and not wants then
    return {1, take(KEYS[1], KEYS[3], owner, ttl, meta, at, above)}
  end
  front = wants and behind(place) or 0
end
return {0, redis.call('PTTL', KEYS[1]), hold[3] or '', wants and place or '0', front}
