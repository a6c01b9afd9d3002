-- What acquire and release share: who is inside, who waits, and who gets in. A key is a table of the names
-- of a lock's keys.
local ack = 2000           -- ms for which a granted lock waits for its owner to ask
local patience = 25000000  -- µs without a question after which an owner in the queue is dead
local urgent = 5000000     -- µs likewise, if the owner keeps others out, or has no subscription
local most = 64            -- owners that one call takes out of a queue
local batch = 16           -- grants of one call; each of these owners asks, and lets more in
local any = 9007199254740991

local function keys_of(names, first)
  return {lock = names[first], queue = names[first + 1], ended = names[first + 2], seen = names[first + 3], holders = names[first + 4]}
end

-- attempt returns what a function does, or the error that Redis answered it with.
local function attempt(f, ...)
  local ok, reply = pcall(f, ...)
  if ok or type(reply) == 'table' then
    return reply
  end
  return {err = reply}
end

local empty = {count = 0, limit = math.huge, fence = 0}

-- inside returns who is inside: how many; the strictest limit; the highest fence; of an exclusive lock, its
-- owner and its hold; and the hold of the owner that asks. It drops holders whose time has ended. A
-- value that it cannot read is a holder that tolerates no other.
local function inside(key, owner, at)
  local field = redis.pcall('HRANDFIELD', key.lock, 1, 'WITHVALUES')
  if field.err then
    if not string.find(field.err, 'WRONGTYPE', 1, true) then
      error(field.err, 0)
    end
    return {count = 1, limit = 1, fence = 0}
  elseif not field[1] then
    return empty
  elseif field[1] ~= '@fence' and limit_of(field[1]) == 1 then
    local hold = decode(field[2])
    return {count = 1, limit = 1, fence = hold and hold.fence or 0, owner = field[1], hold = hold, mine = field[1] == owner and hold}
  end
  local late = redis.call('ZRANGEBYSCORE', key.holders, '(0', number(at), 'LIMIT', 0, 32)
  if late[1] then
    remove(key.lock, key.holders, late)
  end
  local fields = redis.call('HLEN', key.lock)
  local got = redis.call('HMGET', key.lock, owner, '@fence')
  if not got[2] then
    return fields == 0 and empty or {count = 1, limit = 1, fence = 0}
  end
  local strictest = redis.call('ZREVRANGEBYSCORE', key.holders, '(0', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  local limit = strictest and -strictest or 1
  local mine = decode(got[1])
  return {count = fields - 1, limit = limit == any and math.huge or limit, fence = tonumber(got[2]),
    mine = mine and mine.ends > at and mine}
end

-- has_room says whether one more may get in.
local function has_room(found, owner)
  return found.count == 0 or found.count < found.limit and found.count < limit_of(owner)
end

-- new_fence returns the server's time, or one above the highest fence that there is a reason to be above.
local function new_fence(key, found, above, at)
  local high = tonumber(redis.call('ZSCORE', key.ended, '@fence') or 0)
  local fence = math.max(at, found.fence + 1, above + 1, high + 1)
  remember(key.ended, fence, at)
  return fence
end

-- extend has a lock with several holders live for so many ms at least.
local function extend(key, ms)
  local life = number(math.max(redis.call('PTTL', key.lock), ms))
  redis.call('PEXPIRE', key.lock, life)
  redis.call('PEXPIRE', key.holders, life)
end

-- admit lets an owner in, and returns who is inside then, and its hold. waits says that another one waits.
local function admit(key, found, owner, ms, meta, above, at, waits)
  local fence, limit = new_fence(key, found, above, at), limit_of(owner)
  local flags = limit == 1 and waits and 'w' or '-'
  if fence > at then
    flags = flagged(flags, 'a' .. number(at))
  end
  local hold = {depth = '1', fence = fence, since = at, ends = at + ms * 1000, flags = flags, meta = meta}
  if limit == 1 then
    redis.call('HSET', key.lock, owner, encode(hold))
    expire(key.lock, ms, 'DEL', key.lock)
    return {count = 1, limit = 1, fence = fence, owner = owner, hold = hold}, hold
  end
  local life = found.count > 0 and math.max(redis.call('PTTL', key.lock), ms) or ms
  redis.call('HSET', key.lock, owner, encode(hold), '@fence', number(fence))
  expire(key.lock, life, 'HDEL', key.lock, owner)
  redis.call('ZADD', key.holders, number(hold.ends), owner, number(-math.min(limit, any)), 'limit ' .. owner)
  expire(key.holders, life, 'HDEL', key.lock, owner)
  return {count = found.count + 1, limit = math.min(found.limit, limit), fence = fence}, hold
end

-- publish sends a message to the instance of an owner. It returns false if certainly no subscriber got it.
local function publish(owner, mark)
  local instance = string.match(owner, '^[^-]*')
  local receivers = redis.pcall('PUBLISH', string.sub(ARGV[1], 2) .. instance, mark .. owner)
  return not (receivers == 0 and string.sub(ARGV[1], 1, 1) == '1')
end

local function leave(key, owner)
  redis.call('ZREM', key.queue, owner)
  redis.call('HDEL', key.seen, owner)
end

-- is_dead says whether an owner in the queue did not ask for too long, and whether it gets messages.
local function is_dead(key, owner, at, silence)
  local when, mark = string.match(redis.call('HGET', key.seen, owner) or '', '^(%d+)(-?)$')
  local subscribed = mark == ''
  return not when or at - when > (subscribed and silence or urgent), subscribed
end

-- seen_at notes when an owner in the queue asked, or was told that it is in front. Silence counts from here.
local function seen_at(key, owner, at, subscribed)
  redis.call('HSET', key.seen, owner, number(at) .. (subscribed and '' or '-'))
end

-- notify_head tells the owner at the head of the queue that it is there: from now on it asks each second,
-- in case that what it waits for is lost.
local function notify_head(key, self, head, at)
  for _ = 1, most do
    head = head or redis.call('ZRANGE', key.queue, 0, 0)[1]
    if not head or head == self then
      return
    end
    local dead, subscribed = is_dead(key, head, at, patience)
    if not dead and (not subscribed or publish(head, '+')) then
      seen_at(key, head, at, subscribed)
      return
    end
    leave(key, head)
    head = nil
  end
end

-- grant_waiting lets owners in from the head of the queue, as long as there is room: self, which asks, for
-- its ttl; others for an ack window, within which they have to ask. No owner passes a live owner that finds no
-- room. moved says that the owner at the head came there in this call: it is told so, and is dead if it does not hear it.
-- It returns who is inside then, and the hold of self.
local function grant_waiting(key, found, at, above, self, moved)
  local granted, hold, next = 0, nil, nil
  for _ = 1, most do
    local front = redis.call('ZRANGE', key.queue, 0, 1)
    local owner, room = front[1], front[1] and has_room(found, front[1])
    if not owner or granted == batch then
      break
    elseif owner == self.owner then
      if not room then
        return found, hold
      end
      leave(key, owner)
      found, hold = admit(key, found, owner, self.ttl, self.meta, above, at, front[2])
    else
      local dead, subscribed = is_dead(key, owner, at, (room or moved) and patience or urgent)
      if not dead and (room or moved) then
        dead = subscribed and not publish(owner, room and '' or '+')
      end
      if not dead and not room then
        if moved then
          seen_at(key, owner, at, subscribed)
        end
        return found, hold
      end
      leave(key, owner)
      if not dead then
        found = admit(key, found, owner, ack, '', above, at, front[2])
        granted = granted + 1
      end
    end
    moved, next = true, front[2]
    if found.limit == 1 then
      break
    end
  end
  if moved and next then
    notify_head(key, self.owner, next, at)
  end
  return found, hold
end
