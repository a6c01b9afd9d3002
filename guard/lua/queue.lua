-- What acquire and release do with the queue. It stands behind the way that most calls
-- take, which need none of it: even defining these functions takes time.
local queue, seen, channels, counts = KEYS[2], KEYS[4], ARGV[2], ARGV[3] == '1'

local ack = 2000           -- ms for which a grant waits for its owner to ask
local forget = 60000       -- ms for which queue, seen and tombstones live
local patience = 25000000  -- µs after which a waiting owner that did not ask is passed over
local most = 1000          -- owners passed over in one call

local function micros()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function whole(n)
  return string.format('%.0f', n)
end

local function first()
  return redis.call('ZRANGEBYSCORE', queue, '(0', '+inf', 'LIMIT', 0, 1)[1]
end

local function leave(who)
  redis.call('ZREM', queue, who)
  redis.call('HDEL', seen, who)
end

-- released says whether it was this owner that released last.
local function released(who)
  local last = redis.call('GET', KEYS[3])
  return last and string.sub(last, -#who - 1) == ' ' .. who
end

-- over says whether an owner can have no lock any more.
local function over(who)
  return released(who) or tonumber(redis.call('ZSCORE', queue, who) or 0) < 0
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

-- lead tells the two owners in front that they are, unless that is self: they ask more
-- often, in case that a grant or a holder is lost, or a holder and the one behind it.
local function lead(self, at)
  local place = 0
  for _ = 1, most do
    local who = redis.call('ZRANGEBYSCORE', queue, '(0', '+inf', 'LIMIT', place, 1)[1]
    if not who then
      return
    elseif who == self or (alive(who, at) and tell(who, '+')) then
      place = place + 1
      if place == 2 then
        return
      end
    else
      leave(who)
    end
  end
end

-- grant gives a free lock to the first owner that is waiting and alive. self takes it
-- at once and for its ttl; anybody else is asked to ask, and has one ack window for
-- it. It returns the owner and the fence, or nothing.
local function grant(self, ttl, meta, at, above, keep)
  for _ = 1, most do
    local who = first()
    if not who then
      return
    end
    if who == self then
      leave(who)
      lead(self, at)
      return who, take(who, ttl, meta, at, above, keep)
    end
    local living = alive(who, at)
    leave(who)
    if living and tell(who, '') then
      local fence = take(who, ack, '', at, above, keep)
      lead(self, at)
      return who, fence
    end
  end
end

-- front says how many owners have places in front of one.
local function front(place)
  return redis.call('ZCOUNT', queue, '(0', '(' .. whole(place))
end

-- join puts an owner into the queue: at the place it brings, which it had before
-- something got lost, else behind everybody. It returns the place.
local function join(who, place, at)
  local had = redis.call('ZSCORE', queue, who)
  if had then
    place = tonumber(had)
  else
    if place < 1 then
      local highest = redis.call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')[2]
      place = math.max(at, highest and tonumber(highest) + 1 or 0)
    end
  end
  -- The queue's type is known by now. seen comes first: if it is of another type, nothing
  -- is written.
  redis.call('HSET', seen, who, whole(at))
  redis.call('PEXPIRE', seen, forget)
  if not had then
    redis.call('ZADD', queue, whole(place), who)
  end
  redis.call('PEXPIRE', queue, forget)
  return place
end
