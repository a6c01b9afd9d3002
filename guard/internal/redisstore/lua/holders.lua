-- What is in the hash of a lock whose holders tolerate others (see share). inside is what
-- is known of them: n, how many there are; many, the strictest limit; soon, no later than
-- when the first one's time is over (µs); fence, the highest.

-- tolerates says how many holders an owner puts up with, itself included. Its token says
-- so: <instance>-<limit>.<number>, where 0 is any number; all others are exclusive.
local function tolerates(who)
  local limit = tonumber(string.match(who, '^[^-]*%-(%d+)%.') or 1)
  return limit == 0 and math.huge or limit
end

-- nobody is inside.
local function nobody()
  return {n = 0, many = math.huge, soon = '', fence = '0'}
end

-- look gives an owner's field, the fence, what is known of those inside, if they tolerate
-- others, the metadata, and whether an exclusive hold was revoked. There is always a fence
-- if the lock is taken, if only '0', by something that is not understood.
local function look(owner)
  local hold = redis.pcall('HMGET', KEYS[1], owner, '@fence', '@many', '@soon', '@meta', '@ahead', '@revoked', '@since')
  if hold.err then
    if not string.find(hold.err, 'WRONGTYPE', 1, true) then
      error(hold.err, 0)
    end
    hold = {}
  end
  local fence, many = hold[2], hold[3]
  local mine = fence and hold[1]
  if not fence then
    return nil, redis.call('EXISTS', KEYS[1]) == 1 and '0', nil, ''
  elseif not many then
    return mine, fence, nil, hold[5] or '', hold[7]
  end
  local n = redis.call('HLEN', KEYS[1])
  for i = 2, 8 do
    n = hold[i] and n - 1 or n -- it is no owner
  end
  many = many == '0' and math.huge or tonumber(many)
  return mine, fence, {n = n, many = many, soon = hold[4], fence = fence}, hold[5] or ''
end

-- later is the time (µs) that is some ms from another.
local function later(at, ms)
  return string.format('%.0f', at + ms * 1000)
end

-- prune drops the holders whose time is over, and sees anew who is inside. The fences of
-- those who held last stay known.
local function prune(inside, at, ttl)
  local all, over = redis.call('HGETALL', KEYS[1]), {}
  inside.n, inside.many, inside.soon = 0, math.huge, ''
  for i = 1, #all, 2 do
    local who = all[i]
    if string.sub(who, 1, 1) ~= '@' then
      local expiry = string.match(all[i + 1], '^%d+!? (%d+) ') or '9007199254740991' -- not understood
      if less(at, expiry) then
        inside.n, inside.many = inside.n + 1, math.min(inside.many, tolerates(who))
        if inside.soon == '' or less(expiry, inside.soon) then
          inside.soon = expiry
        end
      else
        over[#over + 1] = who
      end
    end
  end
  for i = 1, #over, 1000 do -- as many as unpack can be sure of
    redis.call('HDEL', KEYS[1], unpack(over, i, math.min(i + 999, #over)))
  end
  if inside.n > 0 then
    local many = inside.many == math.huge and '0' or inside.many
    redis.call('HSET', KEYS[1], '@many', many, '@soon', inside.soon)
    return
  end
  redis.call('DEL', KEYS[1])
  local last = string.match(redis.call('GET', KEYS[3]) or '', '^%d+')
  if not last or less(last, inside.fence) then
    redis.call('SET', KEYS[3], inside.fence .. ' ', 'PX', lasting(ttl, inside.fence, at, redis.call('PTTL', KEYS[3])))
  end
end
