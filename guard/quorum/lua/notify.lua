-- At the end of a hold, this notifies the first owner in the list wake to ask. The owner leaves the
-- list, and comes back at its place if it got nothing. The next owner gets the message that it is in front: it
-- asks more often, in case that the first is dead. An owner that does not listen is skipped.
-- publish returns false if certainly no subscriber got the message.
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
