-- release_many: what release does with locks that are likely to be held, and wanted by
-- nobody else.
--
-- KEYS  of each tenure: lock, queue, last (see acquire)
-- ARGV  of each tenure: owner, ttl (ms), fence
-- reply of each tenure: 1 freed; -1 nothing was done: release is to see to it
-- include take

local queues = {}
for i = 2, #KEYS, 3 do
  queues[#queues + 1] = KEYS[i]
end
local quiet = redis.call('EXISTS', unpack(queues)) == 0
local replies, freed, values = {}, {}, {}
for i = 1, #KEYS, 3 do
  local owner, ttl, fence = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local hold = redis.pcall('HMGET', KEYS[i], owner, '@fence', '@ahead')
  local plain = hold[1] and not hold[3] and string.find(ttl, '^%d+$') and string.find(fence, '^%d+$')
  if plain and (quiet or redis.call('EXISTS', KEYS[i + 1]) == 0) then
    freed[#freed + 1] = KEYS[i]
    values[i] = (less(fence, hold[2]) and hold[2] or fence) .. ' ' .. owner
  end
  replies[#replies + 1] = values[i] and 1 or -1
end
if freed[1] then
  redis.call('DEL', unpack(freed)) -- first, as Redis allows it when memory is full
  for i, value in pairs(values) do
    redis.call('SET', KEYS[i + 2], value, 'PX', lasting(ARGV[i + 1]))
  end
end
return replies
