-- revoke: no renewal and no re-entry of a hold from now on. Who holds the lock keeps it
-- until it releases it, or until its lease is over.
--
-- KEYS  1 lock
-- ARGV  1 fence
-- reply {1, owner}  the hold is revoked, now or before
--       {0}         another hold, or none
--       {-1}        this is no lock
local hold = redis.call('HMGET', KEYS[1], '@fence', '@revoked', '@ahead', '@many')
if hold[4] then
  -- Its holders tolerate others, and each has a fence of its own.
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local fence, mark, rest = string.match(all[i + 1], '^(%d+)(!?)( %d+ .*)$')
    if fence == ARGV[1] and string.sub(all[i], 1, 1) ~= '@' then
      if mark == '' then
        redis.call('HDEL', KEYS[1], '@') -- as below
        redis.call('HSET', KEYS[1], all[i], fence .. '!' .. rest)
      end
      return {1, all[i]}
    end
  end
  return {0}
end
if (hold[2] or hold[1]) ~= ARGV[1] then
  return {0}
end
local owner
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, 1) ~= '@' then
    owner = field
  end
end
local fence = tonumber(ARGV[1])
if not owner or not fence then
  return {-1}
end
if not hold[2] then
  -- Redis lets a script write when memory is full if its first write is one that frees.
  redis.call('HDEL', KEYS[1], '@')
  -- A renewal names the fence. @ahead has a release look closer.
  redis.call('HSET', KEYS[1], '@fence', string.format('%.0f', fence + 1), '@revoked', ARGV[1],
    '@ahead', hold[3] or '0')
end
return {1, owner}
