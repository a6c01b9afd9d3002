-- notify: a hold ended on this server of a quorum; tell whoever waits first.
--
-- KEYS  1 wake (see peek)
-- ARGV  1 owner that waits no more, 2 prefix of the channels (see acquire), 3 next owner,
--       to wait behind all others ('' = none)
-- reply {told}         1 if the next owner is the first: it is not told, nor taken out
--       {told, place}  with a next owner
-- include expire
local next, place = ARGV[3], nil
redis.call('ZREM', KEYS[1], ARGV[1])
if next ~= '' then
  local time = redis.call('TIME')
  local highest = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
  place = string.format('%.0f', math.max(time[1] * 1000000 + time[2], highest and tonumber(highest) + 1 or 0))
  redis.call('ZADD', KEYS[1], place, next)
  expire(KEYS[1], 60000, 'ZREM', KEYS[1], next)
end

-- publish returns false when it is sure that nobody listens.
local function publish(who, mark)
  local receivers = redis.pcall('PUBLISH', string.sub(ARGV[2], 2) .. string.match(who, '^[^-]*'), mark .. who)
  return not (string.sub(ARGV[2], 1, 1) == '1' and receivers == 0)
end

-- Whoever is told leaves the list, and comes back at its place if it got nothing. The
-- one behind it is told that it is in front: it asks more often, in case that the
-- other is dead.
local told = false
for _ = 1, 1000 do
  local who = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  if not who or (told and (who == next or publish(who, '+'))) then
    break
  end
  if who == next then
    return {1, place}
  end
  redis.call('ZREM', KEYS[1], who)
  told = told or publish(who, '')
end
return {0, place}
