-- less compares whole numbers that are written in decimal.
local function less(a, b)
  return #a < #b or #a == #b and a < b
end

-- stamp is the server's clock in µs.
local function stamp()
  local time = redis.call('TIME')
  return time[1] .. string.sub('00000' .. time[2], -6)
end

-- same says whether two owners are one claim: what comes after a ~ tells the rounds of a
-- claim on a quorum apart.
local function same(a, b)
  return a == b or string.find(a .. b, '~', 1, true) and string.match(a, '^[^~]*') == string.match(b, '^[^~]*')
end

-- take gives the lock to an owner, unless it is over, and returns the fence. A fence
-- follows the server's clock, so that it grows even when Redis forgot the last one;
-- where the clock is behind, last lives until it has caught up. The first write is one
-- that Redis refuses when memory is full.
local function take(who, ttl, meta, at, above)
  local keep = math.max(2 * ttl, 60000)
  local old = redis.call('SET', KEYS[3], at .. ' ', 'PX', keep, 'GET')
  local fence, high = at, above
  if old then
    local last, released = string.match(old, '^(%d+) (.*)')
    if released and same(released, who) then
      redis.call('SET', KEYS[3], old, 'PX', keep)
      return
    end
    if last and less(high, last) then
      high = last
    end
  end
  if not less(high, at) then
    -- The owner may hand the lock over without a word to the server, for a minute at
    -- most, under one fence more each µs: the next owner's is above all of them.
    local number = tonumber(high) + 1
    fence, high = string.format('%.0f', number), number + 60000000
    keep = string.format('%.0f', keep + math.ceil((high - at) / 1000))
    redis.call('SET', KEYS[3], string.format('%.0f ', high), 'PX', keep)
  end
  if meta == '' then
    redis.call('HSET', KEYS[1], who, '1', '@fence', fence)
  else
    redis.call('HSET', KEYS[1], who, '1', '@fence', fence, '@meta', meta)
  end
  redis.call('PEXPIRE', KEYS[1], ttl)
  return fence
end
