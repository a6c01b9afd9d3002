-- What acquire and release do with the queue.
local queue, seen = KEYS[2], KEYS[4]

local ack = 2000           -- ms for which a grant waits for its owner to ask
local forget = 60000       -- ms for which queue, seen and tombstones live
local patience = 25000000  -- µs after which a waiting owner that did not ask is skipped
local most = 64            -- owners skipped in one call
local batch = 16           -- grants in one call: each of those asks, and goes on serving
local silence = 2000000    -- µs without a word after which one in front is notified again
local deafness = 3000000   -- µs after that until it is skipped
local pulse = 1500000      -- µs for which one without a subscription counts as alive: it asks each second

local function leave(who)
  redis.call('ZREM', queue, who)
  redis.call('HDEL', seen, who)
end

-- has_tombstone says whether an owner, or the claim that it is a try of, has a tombstone.
local function has_tombstone(who, score)
  if score then
    return string.sub(score, 1, 1) == '-'
  end
  local claim = string.match(who, '^(.*)~')
  return claim and string.sub(redis.call('ZSCORE', queue, claim) or '', 1, 1) == '-'
end

-- publish publishes to the instance of an owner. It returns false when it is sure that
-- nobody listens.
local function publish(who, mark)
  local instance = string.sub(who, 1, (string.find(who, '-', 1, true) or 0) - 1)
  local prefix = ARGV[6]
  local receivers = redis.pcall('PUBLISH', string.sub(prefix, 2) .. instance, mark .. who)
  return not (receivers == 0 and string.sub(prefix, 1, 1) == '1')
end

-- last_seen gives when a waiting owner asked, if that was not too long ago, when it was notified
-- again since, and what else is known of it: "+" or "-" (see acquire).
local function last_seen(who)
  local when, again, mark = string.match(redis.call('HGET', seen, who) or '', '^(%d+)%.?(%d*)([+-]?)$')
  if when and at - when <= patience then
    return when, again, mark
  end
end

-- reached says whether an owner that waits can be granted something: it is asked to ask, or does so
-- by itself.
local function reached(when, mark, who)
  if mark == '-' then
    return at - when <= pulse
  end
  return when and publish(who, '')
end

-- mark_waiting has the next release look at the queue.
local function mark_waiting()
  local sole = not inside.several and inside.sole
  if sole and flag(sole, 'w') then
    redis.call('HSET', lock, sole.who, line(sole))
  end
end

-- notify_head notifies the two owners at the head of the queue, unless they know, or are self: they
-- ask more often, in case that a grant or a holder is lost, or a holder and the next owner.
local function notify_head(self)
  local place = 0
  for _ = 1, most do
    local who = redis.call('ZRANGEBYSCORE', queue, '(0', '+inf', 'LIMIT', place, 1)[1]
    if not who then
      break
    end
    local when, again, mark = at, '', '+'
    if who ~= self then
      when, again, mark = last_seen(who)
    end
    if when and (mark ~= '' or publish(who, '+')) then
      if mark == '' then
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
  if place > 0 then
    mark_waiting()
  end
end

-- gone says whether the claim in front, which does not fit, is dead. It asks each second,
-- as soon as it knows that it is in front. Nobody grants it anything that it could fail to
-- take, and it must not keep others out for as long as one further back may be silent.
local function gone(who)
  local when, again, mark = last_seen(who)
  if not when then
    return true
  elseif mark ~= '' and again == '' and at - when <= silence then
    return false
  elseif again ~= '' then
    return at - again > deafness
  elseif mark ~= '-' and not publish(who, '+') then
    return true
  end
  redis.call('HSET', seen, who, when .. '.' .. at .. (mark == '' and '+' or mark))
  return false
end

-- serve lets waiting claims in, from the front, for as long as they fit: self at once and for
-- its ttl; the others are asked to ask, and have one ack window for it. Nobody passes a
-- live claim that does not fit. It returns the fence of self, and the flags, if that got in.
local function serve(self, life, meta, above)
  local granted, fence, flags = 0, nil, nil
  for i = 1, most do
    local who = redis.call('ZRANGEBYSCORE', queue, '(0', '+inf', 'LIMIT', 0, 1)[1]
    if not who or granted == batch then
      break
    end
    if fits(who) then
      local when, _, mark = at, '', ''
      if who ~= self then
        when, _, mark = last_seen(who)
      end
      leave(who)
      if who == self then
        fence, flags = admit(who, life, meta, above)
      elseif when and reached(when, mark, who) then
        granted = granted + 1
        admit(who, ack, '', above)
      end
      if inside.limit == 1 then
        break
      end
    elseif who == self or not gone(who) then
      break
    else
      leave(who)
    end
    if i == most and self ~= '' then
      publish(self, '') -- it asks again, and goes on from there
    end
  end
  notify_head(self)
  return fence, flags
end

-- ahead_of says how many owners have places in front of one.
local function ahead_of(place)
  return redis.call('ZCOUNT', queue, '(0', '(' .. place)
end

-- join puts an owner into the queue: at the place it has or brings, whichever is lower,
-- else at the end. It brings one that it had before something got lost, or before
-- a late command of its own queued it anew. It returns the place, and how many are in front.
local function join(who, had, place, unsubscribed)
  if had and (place == '0' or tonumber(had) <= tonumber(place)) then
    place = word(tonumber(had))
  elseif place == '0' then
    local highest = redis.call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')[2]
    place = at
    if highest and tonumber(highest) >= tonumber(at) then
      place = word(highest + 1)
    end
  end
  local front = ahead_of(place)
  -- First what fails if the key is of another type: nothing is to stay without a ttl.
  redis.call('HSET', seen, who, at .. (unsubscribed and '-' or front < 2 and '+' or ''))
  expire(seen, forget, 'HDEL', seen, who)
  redis.call('ZADD', queue, place, who)
  expire(queue, forget, 'ZREM', queue, who)
  mark_waiting()
  return place, front
end
