-- How those who wait get in beside each other.
local batch = 32           -- grants in one call: each of those asks, and goes on serving
local silence = 2000000    -- µs without a word after which one in front is told again that it is
local deafness = 3000000   -- µs after that until it is passed over

-- gone says whether whoever waits in front and does not fit is dead. It asks each second,
-- as soon as it knows that it is in front. Nobody grants it anything that it could fail to
-- take, and it must not keep others out for as long as one further back may be silent.
-- When it was told again stands behind the point in its field of seen, until it asks.
local function gone(who, at)
  local when, knows = last_seen(who, at)
  if not when then
    return true
  elseif knows and at - when <= silence then
    return false
  end
  local last, told = string.match(when, '^(%d+)%.?(%d*)$')
  if told ~= '' then
    return at - told > deafness
  end
  if not publish(who, '+') then
    return true
  end
  redis.call('HSET', seen, who, last .. '.' .. at .. '+')
  return false
end

-- serve lets in who waits, from the front, for as long as they fit: self at once and for
-- its ttl; the others are asked to ask, and have one ack window for it. Nobody passes a
-- live claim that does not fit. It returns the fence of self if that got in.
local function serve(inside, self, ttl, meta, at, above)
  local fence, granted = nil, 0
  for _ = 1, most do
    local who = redis.call('ZRANGEBYSCORE', queue, '(0', '+inf', 'LIMIT', 0, 1)[1]
    if not who or granted == batch then
      break
    end
    if fits(inside, who, at, ttl) then
      local living = who == self or last_seen(who, at)
      leave(who)
      if who == self then
        fence = admit(inside, who, ttl, meta, at, above)
      elseif living and publish(who, '') then
        granted = granted + 1
        if tolerates(who) > 1 then
          admit(inside, who, ack, nil, at, above)
        elseif take(KEYS[1], KEYS[3], who, ack, '', at, above) then
          inside.n, inside.exclusive = 1, true
          break
        end
      end
    elseif who == self or not gone(who, at) then
      break
    else
      leave(who)
    end
  end
  notify_head(self, at)
  return fence
end
