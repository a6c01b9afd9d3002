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
  if a == b then
    return true
  end
  local rounds = string.find(a, '~', 1, true) or string.find(b, '~', 1, true)
  return rounds and string.match(a, '^[^~]*') == string.match(b, '^[^~]*')
end

-- lasting is for how many ms to remember a fence: longer if that is ahead of the clock.
-- The number is written here, as Redis takes longer for it.
local lately, kept
local function lasting(ttl, fence, at)
  if ttl ~= lately then
    lately, kept = ttl, 2 * ttl <= 60000 and '60000' or string.format('%.0f', 2 * ttl)
  end
  if not fence or not less(at, fence) then
    return kept
  end
  return string.format('%.0f', kept + math.ceil((fence - at) / 1000))
end

-- take gives the lock to an owner, unless it is over, and returns the fence. A fence
-- follows the server's clock, so that it grows even when Redis forgot the last one;
-- where the clock is behind, last lives until it has caught up. The first write is one
-- that Redis refuses when memory is full.
local function take(lock, last, who, ttl, meta, at, above)
  local old = redis.call('SET', last, at .. ' ', 'PX', lasting(ttl), 'GET')
  local fence, high = at, above
  local space = old and string.find(old, ' ', 1, true)
  if space then
    local highest = string.sub(old, 1, space - 1)
    if same(string.sub(old, space + 1), who) then
      redis.call('SET', last, old, 'PX', lasting(ttl, highest, at))
      return
    end
    if less(high, highest) and tonumber(highest) then
      high = highest
    end
  end
  if not less(high, at) then
    -- The owner may hand the lock over without a word to the server, for a minute at
    -- most, under one fence more each µs: the next owner's is above all of them.
    local number = tonumber(high) + 1
    fence, high = string.format('%.0f', number), string.format('%.0f', number + 60000000)
    redis.call('SET', last, high .. ' ', 'PX', lasting(ttl, high, at))
    redis.call('HSET', lock, '@ahead', '1') -- release asks for how long last was to live
  end
  if meta == '' then
    redis.call('HSET', lock, who, '1', '@fence', fence)
  else
    redis.call('HSET', lock, who, '1', '@fence', fence, '@meta', meta)
  end
  redis.call('PEXPIRE', lock, ttl)
  return fence
end
