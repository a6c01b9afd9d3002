-- peek: look at the lock on one server of a quorum, and be notified when its hold ends.
--
-- KEYS  1 lock, 2 ended (see acquire), 3 wake  zset  owners to notify, by place (µs)
-- ARGV  1 owner, 2 place (0 = none yet)
-- reply as that of acquire to an owner that waits; with a remaining ttl of 0, the lock is free
-- include hold
local owner, place = ARGV[1], tonumber(ARGV[2])
if redis.call('ZSCORE', KEYS[2], owner) then
  return 'ended'
end
local had = redis.call('ZSCORE', KEYS[3], owner)
if had then
  place = tonumber(had)
else
  if place < 1 then
    local highest = redis.call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
    place = server_time()
    if highest then
      place = math.max(place, highest + 1)
    end
  end
  redis.call('ZADD', KEYS[3], number(place), owner)
end
expire(KEYS[3], forget, 'ZREM', KEYS[3], owner)
local left = redis.call('PTTL', KEYS[1])
local hold = decode(redis.pcall('HGETALL', KEYS[1])[2])
return table.concat({'busy', left == -2 and 0 or left, number(place), redis.call('ZRANK', KEYS[3], owner), 1,
  hold and hold.depth == '0' and 1 or 0, hold and hold.meta or ''}, ' ')
