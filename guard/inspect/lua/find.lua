-- include hold
-- find returns the owner and the hold under a fence. Else it returns nil, and 0, or -1 if this is no lock.
local function find(lock, fence)
  local all, why = redis.call('HGETALL', lock), 0
  for i = 1, #all, 2 do
    local hold = decode(all[i + 1])
    if hold and hold.fence == tonumber(fence) then
      return all[i], hold
    elseif not hold and all[i] ~= '@fence' then
      why = -1
    end
  end
  return nil, why
end
