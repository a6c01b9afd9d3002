-- release: let owners out, or have a MinHold keep the lock; owners that wait get in. An owner that is
-- not in leaves the queue. One call takes any number of releases. One with a record goes by itself: see outcome.lua.
--
-- KEYS  of each release: as acquire
-- ARGV  channels; of each release: owner, how
-- The values and the replies are in internal/docs/protocol.md. nil: nothing was done, send the release by itself.
local replies, value = {}, nil
for i = 1, #KEYS / 5 do
  local lock, owner, how = KEYS[5 * i - 4], ARGV[2 * i], ARGV[2 * i + 1]
  value = redis.pcall('HGET', lock, owner)
  replies[i] = false
  if how == '' and type(value) == 'string' and string.find(value, '^[1-9]%d* %d+ %d+ %- ') then
    redis.call('DEL', lock) -- its flags say that no owner waits
    replies[i] = 'released'
  end
end
if #replies > 1 or replies[1] then
  return replies
end

-- A release that goes by itself, the long way.
-- include hold
local at = server_time()
-- include lock

local owner = ARGV[2]
local high, min_hold, mark = string.match(ARGV[3], '^(%d+) (%d+) ([-t])$')
high, min_hold = tonumber(high or 0), tonumber(min_hold or 0)

-- let_out ends a hold, and returns the reply to its owner.
local function let_out(hold)
  local said = hold.revoked and 'revoked' or hold.ends <= at and 'lost' or 'released'
  if said == 'released' and limit_of(owner) == 1 then
    -- A MinHold counts from the grant, and is no longer than asked for, wherever the clock was set.
    local rest = math.ceil(min_hold - math.max(at - hold.since, 0) / 1000)
    if rest > 0 then
      if hold.since > at then
        hold.since, hold.flags = at, 'a' .. number(at)
      end
      hold.depth, hold.ends = '0', hold.since + min_hold * 1000
      write(lock, owner, hold, 'PEXPIRE', rest)
      return 'kept'
    end
  end
  remove(lock, holders, {owner})
  return said
end

local hold = type(value) == 'string' and decode(value)
hold = hold and hold.depth ~= '0' and hold
local said, waits = 'lost', nil
if hold then
  said = let_out(hold)
  waits = said ~= 'kept' and (limit_of(owner) > 1 or string.find(hold.flags, 'w', 1, true))
else
  waits = redis.call('ZRANGE', queue, 0, 0)[1] == owner
end
if mark == 't' then
  bury(ended, owner, at)
end
if mark == 't' or not hold then
  leave(owner)
end
remember(ended, math.max(hold and hold.fence or 0, high), at)
local alone = hold and limit_of(owner) == 1
if waits and (alone or redis.call('ZCARD', queue) > 0) then
  local found = alone and {count = 0, limit = any, fence = hold.fence} or inside(owner)
  grant_waiting(found, 0, {}, not hold)
end
if #KEYS == 6 then
  -- include outcome
end
return {type(value) == 'table' and value or said}
