-- acquire_batch: what acquire does with claims whose locks are likely to be free.
--
-- KEYS  of each claim: lock, queue, last (see acquire)
-- ARGV  of each claim: owner, ttl (ms), metadata
-- reply of each claim: its fence; -1 nothing was done: acquire is to see to it
local keys, args = KEYS, ARGV
local time = redis.call('TIME')
local at = time[1] .. string.sub('00000' .. time[2], -6)
local both, n = {}, 0
for i = 1, #keys, 3 do
  both[n + 1], both[n + 2] = keys[i], keys[i + 1]
  n = n + 2
end
local free, taken, replies = redis.call('EXISTS', unpack(both)) == 0, {}, {}
n = 0
for i = 1, #keys, 3 do
  local lock, last, owner, ttl, meta, fence, refused = keys[i], keys[i + 2], args[i], args[i + 1], args[i + 2], nil, nil
  if not taken[lock] and (free or redis.call('EXISTS', lock, keys[i + 1]) == 0) then
    -- include take
    taken[lock] = true
  end
  n = n + 1
  replies[n] = fence and tonumber(fence) or -1
end
return replies
