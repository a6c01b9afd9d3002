-- What stands here tells the first in the list wake, at the end of a hold, to ask. It leaves the
-- list, and comes back at its place if it got nothing. The next one gets the message that it is in front: it
-- asks more often, in case that the other is dead. Whoever does not listen is passed over.

-- publish returns false when it is sure that nobody listens.
local function publish(who, mark)
  return redis.pcall('PUBLISH', string.sub(channels, 2) .. string.match(who, '^[^-]*'), mark .. who) ~= 0
end

local told = false
for _ = 1, 1000 do
  local who = redis.pcall('ZRANGE', wake, 0, 0)[1]
  if not who or (told and publish(who, '+')) then
    break
  end
  redis.call('ZREM', wake, who)
  told = told or publish(who, '')
end
