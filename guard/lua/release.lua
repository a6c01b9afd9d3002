-- release: free a lock if the owner holds it; on demand see to it that no acquire of
-- this owner that is still on its way takes it again.
--
-- KEYS  1 lock, 2 queue, 3 last (see acquire)
-- ARGV  1 owner, 2 fence (0 = not known), 3 ttl (ms), 4 bury (1 or 0)
-- reply 1 freed, 2 this owner released it before, 0 the owner does not hold the lock
local owner, fence, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if not fence or not ttl then
  return redis.error_reply('ERR guard: fence and ttl must be numbers')
end

local reply = 0
local hold = redis.call('HMGET', KEYS[1], owner, '@fence')
if hold[1] then
  local token = string.format('%.0f', math.max(fence, tonumber(hold[2])))
  local keep = math.max(2 * ttl, 60000, redis.call('PTTL', KEYS[3]))
  redis.call('DEL', KEYS[1])
  redis.call('SET', KEYS[3], token .. ' ' .. owner, 'PX', string.format('%.0f', keep))
  reply = 1
else
  local last = redis.call('GET', KEYS[3])
  local space = last and string.find(last, ' ', 1, true)
  if space and string.sub(last, space + 1) == owner then
    reply = 2
  end
end

if ARGV[4] == '1' then
  local time = redis.call('TIME')
  local micros = time[1] * 1000000 + time[2]
  -- Sweeping first also makes the script's first write one that frees, which Redis
  -- allows when memory is full.
  redis.call('ZREMRANGEBYSCORE', KEYS[2], string.format('(%.0f', -micros), '0')
  redis.call('ZADD', KEYS[2], string.format('%.0f', -micros - 60000000), owner)
  redis.call('PEXPIRE', KEYS[2], 60000)
end
return reply
