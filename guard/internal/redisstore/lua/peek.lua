-- peek: look at the lock on one server of a quorum, and be told when its hold ends.
--
-- KEYS  1 lock, 2 queue (for its tombstones), 3 wake  zset  who is to be told, by place (µs)
-- ARGV  1 owner, 2 place (0 = none yet)
-- reply {remaining ttl (ms; 0 = free, -1 = for ever), metadata, place, in front}
--       {…, 1}  the same, but nobody holds it: its MinHold is not over
--       {-1}  the owner is over
-- include value
-- include number
local owner, place = ARGV[1], tonumber(ARGV[2])
if not place then
  return redis.error_reply('ERR guard: place must be a number')
end
if tonumber(redis.call('ZSCORE', KEYS[2], owner) or 0) < 0 then
  return {-1}
end
local had = redis.call('ZSCORE', KEYS[3], owner)
if had then
  place = tonumber(had)
else
  if place < 1 then
    local time = redis.call('TIME')
    local highest = redis.call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
    place = math.max(time[1] * 1000000 + time[2], highest and tonumber(highest) + 1 or 0)
  end
  redis.call('ZADD', KEYS[3], string.format('%.0f', place), owner)
end
expire(KEYS[3], 60000, 'ZREM', KEYS[3], owner)
local left = redis.call('PTTL', KEYS[1])
if left == -2 then
  left = 0
end
-- What is not one field that is understood is not ours.
local all = redis.pcall('HLEN', KEYS[1]) == 1 and redis.call('HGETALL', KEYS[1]) or {}
local hold = parse(all[2])
local done = hold and hold.depth == '0' and 1 or nil
return {left, hold and hold.meta or '', string.format('%.0f', place), redis.call('ZRANK', KEYS[3], owner), done}
