-- What acquire and release do where the lock is not free, or a claim waits. It stands after the
-- way that most calls take: even defining these functions takes time.
-- include value
-- include number
local holders = KEYS[5]
ttl = ttl + 0
local sweep = 32 -- holders whose time has ended that one call drops
local any = '9007199254740991'

-- now is the server's clock in µs.
local function now()
  local time = redis.call('TIME')
  return time[1] .. string.sub('00000' .. time[2], -6)
end

-- later is the time (µs) that is some ms from another.
local function later(from, ms)
  return word(from + ms * 1000)
end

-- tolerates returns how many holders an owner allows, itself included. Its token has the number:
-- <instance>-<limit>.<number>, where 0 is any number; all others are exclusive.
local function tolerates(who)
  local limit = tonumber(string.match(who, '^[^-]*%-(%d+)%.') or 1)
  return limit == 0 and math.huge or limit
end

-- same says whether two owners are one claim: after the ~ stands the try.
local function same(a, b)
  return string.match(a, '^[^~]*') == string.match(b, '^[^~]*')
end

-- released says whether it was this owner that released last.
local function released(who)
  local last_one = string.match(redis.call('GET', last) or '', '^%d+ (%S+)')
  return last_one and same(last_one, who)
end

-- inside is what is known of the holders: n, how many; limit, the strictest of theirs; several,
-- whether holders has them; fence, the highest; done, whether only a MinHold keeps the lock; sole,
-- the only holder; mine, what is there of the owner, and over, whether its time has ended.
local inside

local function nobody()
  inside = {n = 0, limit = math.huge, fence = '0'}
end

-- strictest sees which limit is the strictest of several. Where that was lost, nobody else gets in.
local function strictest()
  local limit = redis.call('ZREVRANGEBYSCORE', holders, '(0', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  inside.limit = not limit and 1 or -limit >= any + 0 and math.huge or -limit
end

-- look reads the holders. A value that it cannot read is a holder that tolerates no other.
local function look(owner)
  local s = redis.pcall('HMGET', lock, owner, '@fence')
  nobody()
  if s.err then
    if not string.find(s.err, 'WRONGTYPE', 1, true) then
      error(s.err, 0)
    end
    inside.n, inside.limit, inside.foreign, inside.error = 1, 1, true, s
    return
  end
  inside.n = redis.call('HLEN', lock) - (s[2] and 1 or 0)
  inside.litter = inside.n == 0 and s[2]
  if inside.n == 0 then
    return
  elseif s[2] then
    inside.several, inside.fence, inside.mine = true, s[2], parse(s[1])
    inside.over = inside.mine and not less(at, inside.mine.ends)
    strictest()
    return inside.mine
  end
  local who, value = owner, s[1]
  if not value and inside.n == 1 then
    local all = redis.call('HGETALL', lock)
    who, value = all[1], all[2]
  end
  local hold = inside.n == 1 and parse(value)
  if not hold then
    inside.limit, inside.foreign = 1, true
    return
  end
  hold.who, inside.sole, inside.fence, inside.done = who, hold, hold.fence, hold.depth == '0'
  inside.limit, inside.mine = inside.done and 1 or tolerates(who), who == owner and hold or nil
  return inside.mine
end

-- drop lets holders out.
local function drop(some)
  if inside.several then
    local index = {}
    for i, who in ipairs(some) do
      index[2 * i - 1], index[2 * i] = who, 'limit ' .. who
    end
    redis.call('ZREM', holders, unpack(index))
    inside.n = inside.n - redis.call('HDEL', lock, unpack(some))
    if inside.n > 0 then
      return strictest()
    end
  end
  redis.call('DEL', lock)
  if inside.several then
    redis.call('DEL', holders)
  end
  local fence = inside.fence
  nobody()
  inside.fence = fence
end

-- prune drops holders whose time has ended.
local function prune()
  if inside.several then
    local over = redis.call('ZRANGEBYSCORE', holders, '(0', at, 'LIMIT', 0, sweep)
    inside.mine = not inside.over and inside.mine or nil
    if over[1] then
      drop(over)
    end
  end
end

-- fits says whether one more may get in.
local function fits(who)
  return inside.n == 0 or inside.n < inside.limit and inside.n < tolerates(who)
end

-- note writes last: the highest fence, and the owner that released. It lives for twice the ttl, a minute at
-- least, after the clock has caught up with the fence, and after rest (ms); and never shorter than
-- it was to. It says whether that is for longer than usual.
local function note(fence, who, old, rest)
  local ms = math.max(2 * ttl, 60000) + (rest or 0) + math.max(math.ceil((fence - at) / 1000), 0)
  local ends = string.match(old or '', '^%d+ %S* (%d+)$')
  if ends then
    ms = math.max(ms, math.ceil((ends - at) / 1000))
  end
  local value = fence .. ' ' .. who
  if ms > 60000 then
    value = value .. ' ' .. later(at, ms)
  end
  redis.call('SET', last, value, 'PX', word(ms))
  return ms > 60000
end

-- mint makes a fence, unless the owner has ended, and gives the flags of its hold. A fence follows the
-- server's clock, so that it grows even when Redis forgot the last one; where the clock was set back,
-- it is one above the highest, and last lives until the clock has caught up. No client takes a
-- number of 2^53 or more for a fence.
local function mint(who, above)
  local old = redis.call('GET', last)
  local high, before = string.match(old or '', '^(%d+) (%S*)')
  if before and before ~= '' and same(before, who) then
    return
  end
  if not high or not less(high, any) then
    high = '0'
  end
  for _, other in ipairs({above, inside.fence}) do
    high = less(high, other) and other or high
  end
  local fence, flags = at, ''
  if not less(high, at) then
    fence, flags = word(high + 1), 'a' .. at
  end
  flags = (note(fence, '', old) and 'l' or '') .. flags
  inside.fence = fence
  return fence, flags == '' and '-' or flags
end

-- stretch has the lock live for so many ms at least.
local function stretch(ms, must)
  local left = redis.call('PTTL', lock)
  if left < ms or must then
    redis.call('PEXPIRE', lock, math.max(left, ms))
  end
  if inside.several then
    expire(holders, math.max(left, ms), 'DEL', holders)
  end
end

-- index notes of one of several holders when its time ends, and its limit.
local function index(who, ends)
  local limit = tolerates(who)
  redis.call('ZADD', holders, ends, who, '-' .. (limit == math.huge and any or limit), 'limit ' .. who)
end

-- admit lets an owner in that fits, unless it has ended, and returns the fence and the flags. From the
-- second one on, each has a time of its own.
local function admit(who, life, meta, above)
  local fence, flags = mint(who, above)
  if not fence then
    return
  end
  if inside.litter then
    redis.call('DEL', lock)
  end
  local first, ends = inside.sole, '0'
  if inside.n > 0 then
    ends = later(at, life)
  end
  if first and not inside.several then
    redis.call('DEL', holders)
    local left = redis.call('PTTL', lock)
    first.ends = left < 0 and any or later(at, left)
    redis.call('HSET', lock, first.who, line(first))
    index(first.who, first.ends)
    inside.several = true
  end
  local value = '1 ' .. fence .. ' ' .. ends .. ' ' .. flags .. ' ' .. meta
  if inside.several then
    redis.call('HSET', lock, who, value, '@fence', fence)
    index(who, ends)
    stretch(life)
  else
    redis.call('HSET', lock, who, value)
    expire(lock, life, 'HDEL', lock, who)
    inside.sole = parse(value)
    inside.sole.who = who
  end
  inside.n, inside.limit = inside.n + 1, math.min(inside.limit, tolerates(who))
  return fence, flags
end

-- keep confirms a hold.
local function keep(who, hold, meta, must)
  if hold.ends ~= '0' then
    local ends = later(at, ttl)
    hold.ends = less(hold.ends, ends) and ends or hold.ends
  end
  hold.meta = meta
  if line(hold) ~= hold.was then
    write(who, line(hold))
    if inside.several then
      redis.call('HSET', lock, '@fence', inside.fence)
      redis.call('ZADD', holders, hold.ends, who)
    end
  end
  stretch(ttl, must)
end

-- busy is the reply to an owner that does not hold the lock.
local function busy(owner, place, front)
  local left, shown = redis.call('PTTL', lock), inside.sole
  if inside.several then
    local ends = redis.call('ZRANGEBYSCORE', holders, '(0', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    if ends and tolerates(owner) > 1 then
      left = math.min(left, math.ceil((ends - at) / 1000))
    end
    shown = parse(redis.call('HGET', lock, redis.call('ZREVRANGE', holders, 0, 0)[1] or ''))
  end
  return {math.max(left, -1), shown and shown.meta or '', place, front,
    inside.limit == math.huge and 0 or inside.limit, inside.done and 1 or 0}
end
