-- release_and_notify: release an owner on one server of a quorum, as release does. Its claim leaves
-- the list of those to notify; if a hold ended, the first in it is notified.
--
-- KEYS  as release, 6 wake (see peek)
-- ARGV  as release
-- reply as release
local wake, channels = table.remove(KEYS), ARGV[1] -- release would take six keys for those of an outcome
local function release()
  -- include release
end
local replies = release()
if redis.call('EXISTS', wake) == 1 then
  redis.pcall('ZREM', wake, string.match(ARGV[2], '^[^~]*'))
  local said = replies[1]
  if said == 'released' or said == 'revoked' then
    -- include notify
  end
end
return replies[1]
