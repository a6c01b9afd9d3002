-- less compares whole numbers that are written in decimal.
local function less(a, b)
  return #a < #b or #a == #b and a < b
end

-- expire gives what was just written a ttl. If Redis refuses that, another command takes it
-- back: nothing is to stay for ever.
local function expire(key, ms, ...)
  local set = redis.pcall('PEXPIRE', key, ms)
  if type(set) == 'table' then
    redis.pcall(...)
    error(set.err, 0)
  end
end
