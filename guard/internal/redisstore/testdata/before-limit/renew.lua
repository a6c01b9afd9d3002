-- renew: give a hold at least its ttl from now. Never creates, never shortens.
--
-- KEYS  1 lock
-- ARGV  1 owner, 2 fence, 3 ttl (ms), 4 depth
-- reply 1 renewed, 0 the owner does not hold the lock under this fence
local hold = redis.call('HMGET', KEYS[1], ARGV[1], '@fence')
if not hold[1] or hold[2] ~= ARGV[2] then
  return 0
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
if hold[1] ~= ARGV[4] then
  -- Redis lets a script write when memory is full if its first write is one that frees.
  redis.call('HDEL', KEYS[1], '@')
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
end
return 1
