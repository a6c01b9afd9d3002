-- renew_shared: renew for an owner that tolerates others. It keeps the owner alone: each
-- holder has an expiry of its own, and the lock lives for as long as the last of them. A ttl
-- of 0 moves no expiry.
--
-- KEYS  1 lock (see share)
-- ARGV  1 owner, 2 fence, 3 ttl (ms)
-- reply 1 renewed, 0 the owner does not hold the lock under this fence, or its time was over,
--       2 its hold was revoked
local hold = redis.call('HGET', KEYS[1], ARGV[1])
local fence, mark, expiry, meta = string.match(hold or '', '^(%d+)(!?) (%d+) (.*)$')
local time = redis.call('TIME')
local at = time[1] * 1000000 + time[2]
if fence ~= ARGV[2] or tonumber(expiry) <= at then
  return 0
elseif mark ~= '' then
  return 2
end
if ARGV[3] == '0' then
  return 1
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
expiry = string.format('%.0f', math.max(tonumber(expiry), at + ARGV[3] * 1000))
-- Redis lets a script write when memory is full if its first write is one that frees.
redis.call('HDEL', KEYS[1], '@')
redis.call('HSET', KEYS[1], ARGV[1], fence .. ' ' .. expiry .. ' ' .. meta)
return 1
