-- fits says whether one more may get in. It looks closer when the limit that is noted
-- keeps out whom its own would not: whose limit that was may have left.
local function fits(inside, who, at, ttl)
  if inside.n == 0 or inside.exclusive or inside.n >= tolerates(who) then
    return inside.n == 0
  end
  if inside.n >= inside.many then
    prune(inside, at, ttl)
  end
  return inside.n < inside.many
end

-- put writes one holder down. One that did not ask yet has no metadata: then that of the
-- one before it goes on being shown.
local function put(inside, who, fence, expiry, ttl, meta)
  inside.many = math.min(inside.many, tolerates(who))
  if inside.soon == '' or less(expiry, inside.soon) then
    inside.soon = expiry
  end
  local many = inside.many == math.huge and '0' or inside.many
  local value = fence .. ' ' .. expiry .. ' ' .. (meta or '')
  redis.call('HSET', KEYS[1], who, value, '@fence', inside.fence, '@many', many, '@soon', inside.soon)
  if meta then
    redis.call('HSET', KEYS[1], '@meta', meta)
  end
  if redis.call('PTTL', KEYS[1]) < ttl then
    redis.call('PEXPIRE', KEYS[1], ttl)
  end
end

-- mint makes a fence above those of all who are inside, and remembers one that is ahead
-- of the clock: nothing else would keep it from being handed out again.
local function mint(inside, ttl, at, above)
  local high, fence = less(inside.fence, above) and above or inside.fence, at
  if not less(high, at) then
    fence = string.format('%.0f', high + 1)
    redis.call('SET', KEYS[3], fence .. ' ', 'PX', lasting(ttl, fence, at, redis.call('PTTL', KEYS[3])))
  end
  inside.fence = fence
  return fence
end

-- admit lets an owner in that fits, unless it is over, and returns the fence. The first
-- one takes the lock as an exclusive owner does.
local function admit(inside, who, ttl, meta, at, above)
  local fence
  if inside.n > 0 then
    fence = mint(inside, ttl, at, above)
  else
    fence = take(KEYS[1], KEYS[3], who, ttl, '', at, above)
    if not fence then
      return
    end
    inside.fence = fence
  end
  inside.n = inside.n + 1
  put(inside, who, fence, later(at, ttl), ttl, meta)
  return fence
end
