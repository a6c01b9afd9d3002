-- acquire_many: what acquire does with claims whose locks are likely to be free.
--
-- KEYS  of each claim: lock, queue, last (see acquire)
-- ARGV  of each claim: owner, ttl (ms), metadata
-- reply of each claim: its fence
--       0   the owner is over
--       -1  nothing was done: acquire is to see to it
-- include take

local locks = {}
for i = 1, #KEYS, 3 do
  locks[#locks + 1] = KEYS[i]
  locks[#locks + 1] = KEYS[i + 1]
end
local at, free, taken = stamp(), redis.call('EXISTS', unpack(locks)) == 0, {}
local replies, valid = {}, nil -- valid is a ttl that is
for i = 1, #KEYS, 3 do
  local lock, ttl, done, fence = KEYS[i], ARGV[i + 1], false, nil
  if ttl ~= valid and string.find(ttl, '^[1-9]%d*$') then
    valid = ttl
  end
  if ttl == valid and not taken[lock] and (free or redis.call('EXISTS', lock, KEYS[i + 1]) == 0) then
    taken[lock] = true
    -- What is wrong with one claim, acquire says; the others are none the worse.
    done, fence = pcall(take, lock, KEYS[i + 2], ARGV[i], ttl, ARGV[i + 2], at, '0')
  end
  replies[#replies + 1] = done and tonumber(fence or 0) or -1
end
return replies
