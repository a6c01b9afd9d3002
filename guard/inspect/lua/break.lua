-- break: a hold is over, at once. Those who wait are to be told to ask: whoever asks first
-- has the lock granted to the first of them (see acquire).
--
-- KEYS  1 lock, 2 queue, 3 last, 4 wake (see acquire and wait)
-- ARGV  1 fence
-- reply {1, owner, …}  the hold is over, it was this owner's; then those to tell
--       {0}            another hold, or none
--       {-1}           this is no lock
local hold = redis.call('HMGET', KEYS[1], '@fence', '@revoked', '@many', '@done')
if not hold[3] and (hold[2] or hold[1]) ~= ARGV[1] then
  return {0}
end
local owner, others = hold[4] or nil, 0 -- who it was, if only its MinHold is not over
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if string.sub(all[i], 1, 1) ~= '@' then
    -- Holders that tolerate others have fences of their own, and go one by one.
    if not hold[3] or string.match(all[i + 1], '^(%d+)!? ') == ARGV[1] then
      owner = all[i]
    else
      others = others + 1
    end
  end
end
if hold[3] and not owner then
  return {0}
end
if not owner or not tonumber(ARGV[1]) then
  return {-1}
end

-- What fails if a key is of another type comes before the first write.
local told = {1, owner}
for _, queue in ipairs({KEYS[2], KEYS[4]}) do
  for _, who in ipairs(redis.call('ZRANGEBYSCORE', queue, '(0', '+inf', 'LIMIT', '0', '8')) do
    told[#told + 1] = who
  end
end
local last, keep = redis.call('GET', KEYS[3]), redis.call('PTTL', KEYS[3])
local ttl = redis.call('PTTL', KEYS[1])

-- Redis lets a script write when memory is full if its first write is one that frees.
if others > 0 then
  redis.call('HDEL', KEYS[1], owner)
else
  redis.call('DEL', KEYS[1])
end
local time = redis.call('TIME')
local at = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[2], string.format('(%.0f', -at), '0')
-- The owner is over: no command of it that is still on its way is heeded.
redis.call('ZADD', KEYS[2], string.format('%.0f', -at - 60000000), string.match(owner, '^[^~]*'))
redis.call('PEXPIRE', KEYS[2], 60000)
-- Later fences are above this one. The owner is not noted: it did not release.
local high = tonumber(hold[1])
high = math.max(high, last and tonumber(string.match(last, '^%d+')) or 0)
local ahead = math.max(math.ceil((high - at) / 1000), 0) -- of the clock, see guard/internal/redisstore/lua/clock.lua
redis.call('SET', KEYS[3], string.format('%.0f ', high), 'PX', math.max(keep, math.max(2 * ttl, 60000) + ahead))
return told
