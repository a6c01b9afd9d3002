-- What acquire and release do with the queue. It stands behind the way that most calls
-- take, which need none of it: even defining these functions takes time.
local queue, seen = KEYS[2], KEYS[4]

local ack = 2000           -- ms for which a grant waits for its owner to ask
local forget = 60000       -- ms for which queue, seen and tombstones live
local patience = 25000000  -- µs after which a waiting owner that did not ask is passed over
local most = 1000          -- owners passed over in one call

local function leave(who)
  redis.call('ZREM', queue, who)
  redis.call('HDEL', seen, who)
end

-- released says whether it was this owner that released last.
local function released(who)
  local last = redis.call('GET', KEYS[3])
  return last and same(string.match(last, ' (.*)') or '', who)
end

-- buried says whether an owner, or the claim that it is a round of, has a tombstone.
local function buried(who, score)
  if score then
    return string.sub(score, 1, 1) == '-'
  end
  local claim = string.match(who, '^(.*)~')
  return claim and string.sub(redis.call('ZSCORE', queue, claim) or '', 1, 1) == '-'
end

-- tell publishes to the instance of an owner. It returns false when it is sure that
-- nobody listens.
local function tell(who, mark)
  local instance = string.sub(who, 1, (string.find(who, '-', 1, true) or 0) - 1)
  local receivers = redis.pcall('PUBLISH', string.sub(ARGV[2], 2) .. instance, mark .. who)
  return not (receivers == 0 and string.sub(ARGV[2], 1, 1) == '1')
end

-- asked gives when a waiting owner asked, if that was not too long ago, and whether it
-- knows that it is in front.
local function asked(who, at)
  local value = redis.call('HGET', seen, who)
  if not value then
    return
  end
  local knows = string.sub(value, -1) == '+'
  local when = knows and string.sub(value, 1, -2) or value
  return at - when <= patience and when, knows
end

-- lead tells the two owners in front that they are, unless they know, or are self: they
-- ask more often, in case that a grant or a holder is lost, or a holder and the one
-- behind it. It returns how many are in front of self, or nothing if it is not one of the two.
local function lead(self, at)
  local place, position = 0, nil
  for _ = 1, most do
    local who = redis.call('ZRANGEBYSCORE', queue, '(0', '+inf', 'LIMIT', place, 1)[1]
    if not who then
      break
    end
    local when, knows = at, true
    if who == self then
      position = place
    else
      when, knows = asked(who, at)
    end
    if when and (knows or tell(who, '+')) then
      if not knows then
        redis.call('HSET', seen, who, when .. '+')
      end
      place = place + 1
      if place == 2 then
        break
      end
    else
      leave(who)
    end
  end
  return position
end

-- grant gives a free lock to the first owner that is waiting and alive. self takes it
-- at once and for its ttl; anybody else is asked to ask, and has one ack window for
-- it. It returns the owner and the fence, or nothing, and what lead says of self. waiting
-- are the first two, where that is known.
local function grant(self, ttl, meta, at, above, waiting)
  for _ = 1, most do
    waiting = waiting or redis.call('ZRANGEBYSCORE', queue, '(0', '+inf', 'LIMIT', '0', '2')
    local who, others = waiting[1], waiting[2]
    if not who then
      return
    end
    local living = who == self or asked(who, at)
    leave(who)
    if who == self or living and tell(who, '') then
      local fence
      if who == self then
        fence = take(KEYS[1], KEYS[3], who, ttl, meta, at, above)
      else
        fence = take(KEYS[1], KEYS[3], who, ack, '', at, above)
      end
      return who, fence, others and lead(self, at)
    end
    waiting = nil
  end
end

-- behind says how many owners have places in front of one.
local function behind(place)
  return redis.call('ZCOUNT', queue, '(0', '(' .. place)
end

-- join puts an owner into the queue: at the place it has or brings, whichever is lower,
-- else behind everybody. It brings one that it had before something got lost, or before
-- a late command of its own queued it anew. It returns the place, and how many are in front.
local function join(who, had, place, at)
  if had and (place == '0' or tonumber(had) <= tonumber(place)) then
    place = string.format('%.0f', tonumber(had))
  elseif place == '0' then
    local highest = redis.call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')[2]
    place = at
    if highest and tonumber(highest) >= tonumber(at) then
      place = string.format('%.0f', highest + 1)
    end
  end
  local front = behind(place)
  -- First what fails if the key is of another type: nothing is to stay without a ttl.
  redis.call('HSET', seen, who, front < 2 and at .. '+' or at)
  redis.call('ZADD', queue, place, who)
  redis.call('PEXPIRE', queue, forget)
  redis.call('PEXPIRE', seen, forget)
  return place, front
end
