-- less compares whole numbers that are written in decimal.
local function less(a, b)
  return #a < #b or #a == #b and a < b
end

-- now is the server's clock in µs.
local function now()
  local time = redis.call('TIME')
  return time[1] .. string.sub('00000' .. time[2], -6)
end

-- lasting is for how many ms to remember a fence: until the clock has caught up with it and
-- for a while more, and never shorter than it was to be, where that is known. Mostly the
-- number is written down already: Redis takes longer for it.
local lately, least, kept
local function lasting(ttl, fence, at, had)
  if ttl ~= lately then
    lately, least = ttl, math.max(2 * ttl, 60000)
    kept = string.format('%.0f', least)
  end
  local ahead = less(at, fence)
  if not ahead and (not had or had <= least) then
    return kept
  end
  local ms = least + (ahead and math.ceil((fence - at) / 1000) or 0)
  return string.format('%.0f', math.max(ms, had or 0))
end
