-- revoke: no renewal and no re-entry of a hold from now on. Who holds the lock keeps it
-- until it releases it, or until its lease ends.
--
-- KEYS  1 lock (see acquire)
-- ARGV  1 fence
-- reply {1, owner}  the hold is revoked, now or before
--       {0}, {-1}   see break
-- include find
local owner, hold = find(KEYS[1], ARGV[1])
if not owner then
  return {hold}
end
if not hold.revoked then
  hold.flags = hold.flags .. 'r'
  redis.call('HDEL', KEYS[1], '@') -- memory may be full: see bury
  redis.call('HSET', KEYS[1], owner, encode(hold))
end
return {1, owner}
