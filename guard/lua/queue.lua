-- queue: what acquire and release share; it is put in front of both.
--
-- KEYS  1 lock   hash    <owner> -> depth, @fence, @meta; has a ttl; absent = free
--       2 queue  zset    waiting owners by place (µs of server time); owners that are
--                        over by -(µs at which that is forgotten)
--       3 last   string  "<highest fence> <owner that released last>"
--       4 seen   hash    <owner> -> when it last asked (µs)
-- ARGV  1 owner, 2 prefix of the channels, 3 1 if PUBLISH counts every receiver
local owner, channels, counts = ARGV[1], ARGV[2], ARGV[3] == '1'
local lock, queue, seen = KEYS[1], KEYS[2], KEYS[4]

local ack = 2000           -- ms for which a grant waits for its owner to ask
local forget = 60000       -- ms for which queue, seen and tombstones live
local patience = 25000000  -- µs after which a waiting owner that did not ask is passed over
local most = 1000          -- owners passed over in one call

local function micros()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- names says whether last names an owner as the one that released.
local function names(last, who)
  return last and string.sub(last, -#who - 1) == ' ' .. who
end

local function whole(n)
  return string.format('%.0f', n)
end

-- take gives the lock to an owner, unless it is over. A fence follows the server's clock, so that it grows
-- even when Redis forgot the last one; where the clock is behind, last lives until the
-- clock has caught up. Its first write is one that Redis refuses when memory is full.
local function take(who, ttl, meta, at, floor)
  local fence = math.max(at, floor + 1)
  local keep = math.max(2 * ttl, 60000)
  local old = redis.call('SET', KEYS[3], whole(fence) .. ' ', 'PX', whole(keep), 'GET')
  if names(old, who) then
    redis.call('SET', KEYS[3], old, 'PX', whole(keep))
    return
  end
  local high = old and tonumber(string.match(old, '^%d+')) or 0
  if high >= fence or fence > at then
    fence = math.max(fence, high + 1)
    keep = keep + math.ceil((fence - at) / 1000)
    redis.call('SET', KEYS[3], whole(fence) .. ' ', 'PX', whole(keep))
  end
  redis.call('HSET', lock, who, '1', '@fence', whole(fence), '@meta', meta)
  redis.call('PEXPIRE', lock, whole(ttl))
  return whole(fence)
end

local function first()
  return redis.call('ZRANGEBYSCORE', queue, '(0', '+inf', 'LIMIT', 0, 1)[1]
end

local function leave(who)
  redis.call('ZREM', queue, who)
  redis.call('HDEL', seen, who)
end

-- tell publishes to the instance of an owner. It returns false when it is sure that
-- nobody listens.
local function tell(who, mark)
  local instance = string.match(who, '^[^-]*')
  local receivers = redis.pcall('PUBLISH', channels .. instance, mark .. who)
  return not (counts and receivers == 0)
end

local function alive(who, at)
  local asked = redis.call('HGET', seen, who)
  return asked and at - tonumber(asked) <= patience
end

-- lead tells the owner in front that it is, unless that is self: whoever is in front
-- asks more often, in case that a grant or a holder is lost.
local function lead(self, at)
  for _ = 1, most do
    local who = first()
    if not who or who == self or (alive(who, at) and tell(who, '+')) then
      return
    end
    leave(who)
  end
end

-- grant gives a free lock to the first owner that is waiting and alive. self takes it
-- at once and for its ttl; anybody else is asked to ask, and has one ack window for
-- it. It returns the owner and the fence, or nothing.
local function grant(self, ttl, meta, at, floor)
  for _ = 1, most do
    local who = first()
    if not who then
      return
    end
    if who == self then
      leave(who)
      lead(self, at)
      return who, take(who, ttl, meta, at, floor)
    end
    local living = alive(who, at)
    leave(who)
    if living and tell(who, '') then
      local fence = take(who, ack, '', at, floor)
      lead(self, at)
      return who, fence
    end
  end
end

-- join puts an owner into the queue: at the place it brings, which it had before
-- something got lost, else behind everybody. It returns the place, and how many are in
-- front.
local function join(who, place, at)
  local had = redis.call('ZSCORE', queue, who)
  if had then
    place = tonumber(had)
  else
    if place < 1 then
      local highest = redis.call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')[2]
      place = math.max(at, highest and tonumber(highest) + 1 or 0)
    end
    redis.call('ZADD', queue, whole(place), who)
  end
  redis.call('HSET', seen, who, whole(at))
  redis.call('PEXPIRE', queue, forget)
  redis.call('PEXPIRE', seen, forget)
  return place, redis.call('ZCOUNT', queue, '(0', '(' .. whole(place))
end
