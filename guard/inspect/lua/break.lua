-- break: ends a hold at once. The caller notifies the owners that wait: the first that asks
-- has the lock granted to the first of them (see acquire).
--
-- KEYS  1 lock, 2 queue, 3 last, 4 wake, 5 holders (see acquire and peek)
-- ARGV  1 fence
-- reply {1, owner, …}  the hold has ended, it was this owner's; then the owners to notify
--       {0}            another hold, or none
--       {-1}           this is no lock
-- include value
local lock, known = KEYS[1], true
local owner, high, others = nil, 0, 0
local all = redis.call('HGETALL', lock)
for i = 1, #all, 2 do
  local hold = parse(all[i + 1])
  if all[i] == '@fence' then
    high = math.max(high, all[i + 1])
  elseif hold and hold.fence == ARGV[1] then
    owner, high = all[i], math.max(high, hold.fence)
  else
    others, known = others + 1, hold
  end
end
if not owner then
  return {known and 0 or -1}
end

-- What fails if a key is of another type comes before the first write.
local told = {1, owner}
for _, queue in ipairs({KEYS[2], KEYS[4]}) do
  for _, who in ipairs(redis.call('ZRANGEBYSCORE', queue, '(0', '+inf', 'LIMIT', '0', '8')) do
    told[#told + 1] = who
  end
end
local last, ttl = redis.call('GET', KEYS[3]) or '', redis.call('PTTL', lock)
local before, ends = string.match(last, '^(%d+) %S* ?(%d*)$')

-- Redis lets a script write when memory is full if its first write is one that frees.
if others > 0 then
  redis.call('HDEL', lock, owner)
  redis.call('ZREM', KEYS[5], owner, 'limit ' .. owner)
else
  redis.call('DEL', lock, KEYS[5])
end
local time = redis.call('TIME')
local at = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[2], string.format('(%.0f', -at), '0')
-- The owner has ended: its commands that are still on their way do nothing.
redis.call('ZADD', KEYS[2], word(-at - 60000000), string.match(owner, '^[^~]*'))
redis.call('PEXPIRE', KEYS[2], 60000)
-- Later fences are above this one. The owner is not noted: it did not release.
high = math.max(high, before or 0)
local ms = math.max(2 * ttl, 60000) + math.max(math.ceil((high - at) / 1000), 0)
ms = math.max(ms, ends and ends ~= '' and math.ceil((ends - at) / 1000) or 0)
redis.call('SET', KEYS[3], word(high) .. ' ' .. (ms > 60000 and ' ' .. word(at + ms * 1000) or ''), 'PX', word(ms))
return told
