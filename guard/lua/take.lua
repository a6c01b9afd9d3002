-- take gives the lock to an owner, unless it is over, and returns the fence. A fence
-- follows the server's clock, so that it grows even when Redis forgot the last one;
-- where the clock is behind, last lives until it has caught up. The first write is one
-- that Redis refuses when memory is full.
local function take(who, ttl, meta, at, above, keep)
  local fence = math.max(at, above + 1)
  local token = string.format('%.0f', fence)
  local old = redis.call('SET', KEYS[3], token .. ' ', 'PX', keep, 'GET')
  if old then
    if string.sub(old, -#who - 1) == ' ' .. who then
      redis.call('SET', KEYS[3], old, 'PX', keep)
      return
    end
    local high = tonumber(string.match(old, '^%d+')) or 0
    if high >= fence then
      fence = high + 1
      token = string.format('%.0f', fence)
    end
  end
  if fence > at then
    -- The owner may hand the lock over without a word to the server, for a minute at
    -- most, under one fence more each µs: the next owner's is above all of them.
    local high = fence + 60000000
    keep = string.format('%.0f', keep + math.ceil((high - at) / 1000))
    redis.call('SET', KEYS[3], string.format('%.0f ', high), 'PX', keep)
  end
  redis.call('HSET', KEYS[1], who, '1', '@fence', token, '@meta', meta)
  redis.call('PEXPIRE', KEYS[1], ttl)
  return token
end
