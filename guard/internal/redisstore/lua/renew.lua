-- renew: give a hold at least its ttl from now, and tell of its present holder. Never
-- creates, never shortens. A ttl of 0 moves no expiry.
--
-- KEYS  1 lock
-- ARGV  1 owner, 2 fence, 3 ttl (ms), 4 depth, 5 metadata
-- reply 1 renewed, 0 the owner does not hold the lock under this fence, 2 its hold was revoked
local hold = redis.call('HMGET', KEYS[1], ARGV[1], '@fence', '@meta')
if not hold[1] or hold[2] ~= ARGV[2] then
  return hold[1] and redis.call('HEXISTS', KEYS[1], '@revoked') == 1 and 2 or 0
end
if ARGV[3] ~= '0' and redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
if hold[1] ~= ARGV[4] then
  -- Redis lets a script write when memory is full if its first write is one that frees.
  redis.call('HDEL', KEYS[1], '@')
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
end
if (hold[3] or '') ~= ARGV[5] then
  redis.call('HDEL', KEYS[1], '@meta')
  if ARGV[5] ~= '' then
    redis.call('HSET', KEYS[1], '@meta', ARGV[5])
  end
end
return 1
