-- depth: set the hash counter of a hold to an absolute value, so that twice is once.
--
-- KEYS  1 lock
-- ARGV  1 owner, 2 depth
-- reply 1 set, 0 the owner does not hold the lock
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
-- Redis lets a script write when memory is full if its first write is one that frees.
redis.call('HDEL', KEYS[1], '@')
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
