-- release: let owners out, or have a MinHold keep the lock; owners that wait get in. An owner that is
-- not in leaves the queue. One call takes any number of releases.
--
-- KEYS  of each release: as acquire
-- ARGV  channels (see acquire)
--       of each release: owner, and how: "" for a plain exclusive hold whose fence is not ahead of the clock. Else
--       "<highest fence handed out> <MinHold (ms)> <mark>": "t" if an acquire of the owner may still come, else "-"
--       A release with a record goes by itself, and has one key and six arguments more: see outcome.lua
-- reply of each release, in order, a word:
--       released · kept: its MinHold has not ended · revoked: released, it had been revoked
--       lost     the owner does not hold the lock
--       nil      nothing was done: send it by itself
local keys, args = KEYS, ARGV
local replies, left, a = {}, nil, 2
for k = 1, #keys - 4, 5 do
  local lock = keys[k]
  local hold = redis.pcall('HGET', lock, args[a])
  if args[a + 1] == '' and type(hold) == 'string' and string.find(hold, '^[1-9]%d* %d+ %d+ %- ') then
    redis.call('DEL', lock) -- its flags say that no owner waits
    replies[#replies + 1] = 'released'
  else
    left = left or {}
    replies[#replies + 1] = false
    left[#left + 1] = {#replies, hold}
  end
  a = a + 2
end
if not left then
  return replies
end

-- include hold
-- include lock

local time = redis.call('TIME')
local at = time[1] * 1000000 + time[2]

-- let_out ends a hold, and returns the reply to its owner.
local function let_out(key, owner, hold, min_hold)
  local said = hold.revoked and 'revoked' or hold.ends <= at and 'lost' or 'released'
  if said == 'released' and min_hold > 0 and limit_of(owner) == 1 then
    -- Since the grant, and for no longer than asked for, whatever became of the clock.
    if hold.since > at then
      hold.since, hold.flags = at, 'a' .. number(at)
    end
    local rest = math.ceil(min_hold - (at - hold.since) / 1000)
    if rest > 0 then
      hold.depth, hold.ends, said = '0', hold.since + min_hold * 1000, 'kept'
      redis.call('PEXPIRE', key.lock, number(rest))
      redis.call('HSET', key.lock, owner, encode(hold))
    end
  end
  if said ~= 'kept' then
    remove(key.lock, key.holders, {owner})
  end
  return said
end

-- release is the long way.
local function release(key, owner, how, value)
  local high, min_hold, mark = string.match(how, '^(%d+) (%d+) ([-t])$')
  high, min_hold = tonumber(high or 0), tonumber(min_hold or 0)
  local hold = type(value) == 'string' and decode(value)
  hold = hold and hold.depth ~= '0' and hold
  local said, waits = 'lost', nil
  if hold then
    said = let_out(key, owner, hold, min_hold)
    waits = said ~= 'kept' and (limit_of(owner) > 1 or string.find(hold.flags, 'w', 1, true))
  else
    waits = redis.call('ZRANGE', key.queue, 0, 0)[1] == owner
  end
  if mark == 't' then
    bury(key.ended, owner, at)
  end
  if mark == 't' or not hold then
    leave(key, owner)
  end
  remember(key.ended, math.max(hold and hold.fence or 0, high), at)
  local alone = hold and limit_of(owner) == 1
  if waits and (alone or redis.call('ZCARD', key.queue) > 0) then
    local found = alone and {count = 0, limit = math.huge, fence = hold.fence} or inside(key, owner, at)
    if found.limit > 1 then
      grant_waiting(key, found, at, 0, {}, not hold)
    else
      notify_head(key, owner, nil, at)
    end
  end
  if #keys == 6 then
    -- include outcome
  end
  return type(value) == 'table' and value or said
end

for n = 1, math.min(#left, 8) do
  local i, hold = unpack(left[n])
  if n > 1 then
    hold = redis.pcall('HGET', keys[5 * i - 4], args[2 * i]) -- the releases before it may have been of the same key
  end
  replies[i] = attempt(release, keys_of(keys, 5 * i - 4), args[2 * i], args[2 * i + 1], hold)
end
return replies
