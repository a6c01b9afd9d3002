-- raise_fence: make sure that the fences of later holders are above one, if the owner holds
-- the lock on this server of a quorum.
--
-- KEYS  1 lock, 2 last (see acquire)
-- ARGV  1 owner, 2 fence, 3 ttl (ms)
-- reply 1 it is remembered, 0 the owner does not hold the lock
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
-- include clock
local fence = ARGV[2]
local last = redis.call('GET', KEYS[2])
local highest = last and string.match(last, '^%d+')
if not highest or less(highest, fence) then
  local keep = lasting(ARGV[3], fence, now(), redis.call('PTTL', KEYS[2]))
  redis.call('SET', KEYS[2], fence .. ' ', 'PX', keep)
  redis.call('HSET', KEYS[1], '@ahead', '1') -- see take
end
return 1
