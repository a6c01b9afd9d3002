-- set_depth: set the hash counter of a hold to an absolute value, so that twice is once.
--
-- KEYS  1 lock
-- ARGV  1 owner, 2 depth
-- reply 1 set, 0 the owner does not hold the lock, 2 its hold was revoked
local hold = redis.call('HMGET', KEYS[1], ARGV[1], '@revoked')
if not hold[1] then
  return 0
elseif hold[2] then
  return 2
end
-- Redis lets a script write when memory is full if its first write is one that frees.
redis.call('HDEL', KEYS[1], '@')
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
