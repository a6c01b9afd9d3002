-- revoke: no renewal and no re-entry of a hold from now on. Who holds the lock keeps it
-- until it releases it, or until its lease ends.
--
-- KEYS  1 lock (see acquire)
-- ARGV  1 fence
-- reply {1, owner}  the hold is revoked, now or before
--       {0}         another hold, or none
--       {-1}        this is no lock
-- include hold
local lock, known = KEYS[1], true
local all = redis.call('HGETALL', lock)
for i = 1, #all, 2 do
  local hold = decode(all[i + 1])
  known = hold or all[i] == '@fence'
  if hold and hold.fence == tonumber(ARGV[1]) then
    if not hold.revoked then
      hold.flags = flagged(hold.flags, 'r')
      redis.call('HDEL', lock, '@') -- memory may be full: see bury
      redis.call('HSET', lock, all[i], encode(hold))
    end
    return {1, all[i]}
  end
end
return {known and 0 or -1}
