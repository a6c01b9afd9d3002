-- notify: a hold ended on this server of a quorum; tell whoever waits first.
--
-- KEYS  1 wake (see peek)
-- ARGV  1 owner that waits no more, 2 prefix of the channels (see acquire)
-- reply 1 somebody was told, 0 nobody waits
redis.call('ZREM', KEYS[1], ARGV[1])

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
  if not who or (told and publish(who, '+')) then
    break
  end
  redis.call('ZREM', KEYS[1], who)
  told = told or publish(who, '')
end
return told and 1 or 0
