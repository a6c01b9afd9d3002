-- renew: give holds at least their ttl from now, and note their depth and their present holder. It never creates a
-- hold, and never shortens one. One call takes any number of holds.
--
-- KEYS  of each hold: lock; of a hold that goes by itself, also holders, if it tolerates others, or once, if it has a record
-- ARGV  of each hold: owner, fence, ttl (0: set the depth only), depth, metadata; with a record, keep
-- include hold
local at, replies = server_time(), {}
for i = 1, math.floor(#ARGV / 5) do
  local lock, a = KEYS[i], 5 * i - 4
  local owner, fence, ttl = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  local value = redis.pcall('HGET', lock, owner)
  local hold = type(value) == 'string' and decode(value)
  if type(value) == 'table' then
    replies[i] = value
  elseif not hold or hold.depth == '0' or hold.ends <= at or (hold.fence ~= fence and not hold.revoked) then
    replies[i] = 'lost'
  elseif hold.revoked then
    replies[i] = 'revoked'
  else
    hold.depth, hold.meta = ARGV[a + 3], ARGV[a + 4]
    extend(lock, KEYS[2], owner, hold, ttl, at)
    replies[i] = 'held ' .. number(at)
    if #ARGV == 6 and ttl > 0 then -- the record is its own: it wrote that it began when it got the lock
      redis.call('PEXPIRE', KEYS[2], number(ttl + ARGV[6]))
    end
  end
end
return replies
