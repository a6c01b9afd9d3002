-- acquire_many: what acquire does with claims whose locks are likely to be free.
--
-- KEYS  of each claim: lock, queue, last (see acquire)
-- ARGV  of each claim: owner, ttl (ms), metadata
-- reply of each claim: its fence
--       0   the owner is over
--       -1  nothing was done: acquire is to see to it
-- include take

local call, keys, args = redis.call, KEYS, ARGV
local locks, n = {}, 0
for i = 1, #keys, 3 do
  locks[n + 1], locks[n + 2] = keys[i], keys[i + 1]
  n = n + 2
end
local at, free, taken = stamp(), call('EXISTS', unpack(locks)) == 0, {}
local replies, valid = {}, nil -- valid is a ttl that is
n = 0
for i = 1, #keys, 3 do
  local lock, ttl, done, fence = keys[i], args[i + 1], false, nil
  if ttl ~= valid and string.find(ttl, '^[1-9]%d*$') then
    valid = ttl
  end
  if ttl == valid and not taken[lock] and (free or call('EXISTS', lock, keys[i + 1]) == 0) then
    taken[lock] = true
    -- What is wrong with one claim, acquire says; the others are none the worse.
    done, fence = pcall(take, lock, keys[i + 2], args[i], ttl, args[i + 2], at, '0')
  end
  n = n + 1
  replies[n] = done and tonumber(fence or 0) or -1
end
return replies
