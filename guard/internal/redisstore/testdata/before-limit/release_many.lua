-- release_many: what release does with locks that are likely to be held, and wanted by
-- nobody else.
--
-- KEYS  of each tenure: lock, queue, last (see acquire)
-- ARGV  of each tenure: owner, ttl (ms), fence
-- reply of each tenure: 1 freed; -1 nothing was done: release is to see to it
-- include take

local call, keys, args = redis.call, KEYS, ARGV
local queues, n = {}, 0
for i = 2, #keys, 3 do
  n = n + 1
  queues[n] = keys[i]
end
local quiet = call('EXISTS', unpack(queues)) == 0
local replies, freed, values, valid = {}, {}, {}, nil -- valid is a ttl that is
n = 0
for i = 1, #keys, 3 do
  local owner, ttl, fence = args[i], args[i + 1], args[i + 2]
  if ttl ~= valid and string.find(ttl, '^[1-9]%d*$') then
    valid = ttl
  end
  local hold = redis.pcall('HMGET', keys[i], owner, '@fence', '@ahead')
  n = n + 1
  replies[n] = -1
  if hold[1] and not hold[3] and ttl == valid and tonumber(fence) and (quiet or call('EXISTS', keys[i + 1]) == 0) then
    freed[#freed + 1] = keys[i]
    values[i] = (less(fence, hold[2]) and hold[2] or fence) .. ' ' .. owner
    replies[n] = 1
  end
end
if freed[1] then
  call('DEL', unpack(freed)) -- first, as Redis allows it when memory is full
  for i, value in pairs(values) do
    call('SET', keys[i + 2], value, 'PX', lasting(args[i + 1]))
  end
end
return replies
