-- break: ends a hold at once. The caller notifies the owners that wait: the first that asks
-- has the lock granted to the first of them (see acquire).
--
-- KEYS  1 lock, 2 queue, 3 ended, 4 wake, 5 holders (see acquire and peek)
-- ARGV  1 fence
-- reply {1, owner, …}  the hold has ended, it was this owner's; then the owners to notify
--       {0}            another hold, or none
--       {-1}           this is no lock
-- include find
local owner, hold = find(KEYS[1], ARGV[1])
if not owner then
  return {hold}
end
-- What fails if a key is of another type comes before the first write.
local told = {1, owner}
for _, queue in ipairs({KEYS[2], KEYS[4]}) do
  for _, who in ipairs(redis.call('ZRANGE', queue, 0, 7)) do
    told[#told + 1] = who
  end
end
redis.call('ZCARD', KEYS[3])
remove(KEYS[1], KEYS[5], {owner})
-- The owner has ended: its commands that are still on their way do nothing. Later fences are above this one.
local at = server_time()
bury(KEYS[3], owner, at)
remember(KEYS[3], hold.fence, at)
return told
