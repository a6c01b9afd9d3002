-- rollback: take back what a round on a quorum got, or may yet get, on one of its servers.
--
-- KEYS  1 lock, 2 ended (see acquire), 3 wake (see peek)
-- ARGV  1 owner of the round, 2 tombstone (1 or 0), 3 prefix of the channels (see acquire), if the
--       first in the list is to be notified
-- reply released
-- include hold
local hold = redis.pcall('HGET', KEYS[1], ARGV[1])
if type(hold) == 'table' and not string.find(hold.err, 'WRONGTYPE', 1, true) then
  return hold
end
if type(hold) == 'string' and not string.find(hold, '^0 ') then -- else its MinHold keeps it
  redis.call('DEL', KEYS[1])
end
if ARGV[2] == '1' then
  bury(KEYS[2], ARGV[1], server_time())
end
local wake, channels = KEYS[3], ARGV[3]
if channels ~= '' then
  -- include notify
end
return 'released'
