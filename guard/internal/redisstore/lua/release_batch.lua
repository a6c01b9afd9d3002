-- release_batch: what release does with locks that are likely to be held, and wanted by nobody else.
--
-- KEYS  of each hold: lock, queue, last (see acquire)
-- ARGV  of each hold: owner, ttl (ms), fence
-- reply of each hold: 1 freed; -1 nothing was done: release is to see to it
local keys, args = KEYS, ARGV
local time = redis.call('TIME')
local at = time[1] .. string.sub('00000' .. time[2], -6)
local replies, n = {}, 0
for i = 1, #keys, 3 do
  local lock, last, owner, ttl, fence, freed = keys[i], keys[i + 2], args[i], args[i + 1], args[i + 2], nil
  -- include free
  n = n + 1
  replies[n] = freed and 1 or -1
end
return replies
