-- What acquire and release share: who is inside, who waits, and who gets in. It needs at, the time of the server.
local lock, queue, ended, seen, holders = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local ack = 2000           -- ms for which a granted lock waits for its owner to ask
local patience = 25000000  -- µs without a question after which an owner in the queue is dead
local urgent = 5000000     -- µs likewise, if the owner keeps others out, or has no subscription
local batch = 16           -- owners that one call takes out of the queue; those that got in ask, and let more in

local empty = {count = 0, limit = any, fence = 0}
local unreadable = {count = 1, limit = 1, fence = 0}

-- inside returns who is inside: how many; the strictest limit; the highest fence; of an exclusive lock, its
-- owner and its hold; and the hold of the owner that asks. It removes holders whose time has ended. A
-- value that it cannot read is a holder that tolerates no other.
local function inside(owner)
  local field = redis.pcall('HRANDFIELD', lock, 1, 'WITHVALUES')
  if field.err then
    if not string.find(field.err, 'WRONGTYPE', 1, true) then
      error(field.err, 0)
    end
    return unreadable
  elseif not field[1] then
    return empty
  elseif field[1] ~= '@fence' and limit_of(field[1]) == 1 then
    local hold = decode(field[2])
    return {count = 1, limit = 1, fence = hold and hold.fence or 0, owner = field[1], hold = hold, mine = field[1] == owner and hold}
  end
  local late = redis.call('ZRANGEBYSCORE', holders, '(0', number(at), 'LIMIT', 0, 32)
  if late[1] then
    remove(lock, holders, late)
  end
  local fields = redis.call('HLEN', lock)
  local got = redis.call('HMGET', lock, owner, '@fence')
  if not got[2] then
    return fields == 0 and empty or unreadable
  end
  local strictest = redis.call('ZREVRANGEBYSCORE', holders, '(0', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  return {count = fields - 1, limit = strictest and -strictest or 1, fence = tonumber(got[2]), mine = decode(got[1])}
end

-- has_room says whether one more may get in.
local function has_room(found, owner)
  return found.count == 0 or found.count < found.limit and found.count < limit_of(owner)
end

-- new_fence returns the server's time, or one above the highest fence that there is a reason to be above; and the flag of
-- a hold whose fence is ahead of the clock.
local function new_fence(found, above)
  local high = tonumber(redis.call('ZSCORE', ended, '@fence') or 0)
  local fence = math.max(at, found.fence + 1, above + 1, high + 1)
  remember(ended, fence, at)
  return fence, fence > at and 'a' .. number(at) or ''
end

-- admit lets an owner in, and returns who is inside then, and its hold. waits says that another owner waits.
local function admit(found, owner, ms, meta, above, waits)
  local limit, fence, ahead = limit_of(owner), new_fence(found, above)
  local flags = (limit == 1 and waits and 'w' or '') .. ahead
  local hold = {depth = '1', fence = fence, since = at, ends = at + ms * 1000, flags = flags, meta = meta}
  if limit == 1 then
    redis.call('HSET', lock, owner, encode(hold))
    expire(lock, ms, 'DEL', lock)
    return {count = 1, limit = 1, fence = fence, owner = owner, hold = hold}, hold
  end
  local life = math.max(redis.call('PTTL', lock), ms)
  redis.call('HSET', lock, owner, encode(hold), '@fence', number(fence))
  expire(lock, life, 'HDEL', lock, owner)
  redis.call('ZADD', holders, number(hold.ends), owner, number(-limit), 'limit ' .. owner)
  expire(holders, life, 'HDEL', lock, owner)
  return {count = found.count + 1, limit = math.min(found.limit, limit), fence = fence}, hold
end

-- publish sends a message to the instance of an owner. It returns false if certainly no subscriber got it.
local function publish(owner, mark)
  local receivers = redis.pcall('PUBLISH', string.sub(ARGV[1], 2) .. string.match(owner, '^[^-]*'), mark .. owner)
  return receivers ~= 0 or string.sub(ARGV[1], 1, 1) == '0'
end

local function leave(owner)
  redis.call('ZREM', queue, owner)
  redis.call('HDEL', seen, owner)
end

-- is_dead says whether an owner in the queue did not ask for too long, and whether it gets messages.
local function is_dead(owner, silence)
  local when, mark = string.match(redis.call('HGET', seen, owner) or '', '^(%d+)(-?)$')
  local subscribed = mark == ''
  return not when or at - when > (subscribed and silence or urgent), subscribed
end

-- grant_waiting lets owners in from the head of the queue, as long as there is room: self, which asks, for
-- its ttl; others for an ack window, within which they have to ask. No owner passes a live owner that finds no
-- room. moved says that the owner at the head came there in this call. It is told so, and asks each second from then
-- on, in case that what it waits for is lost. It is dead if it does not hear it; else its silence counts from here.
-- It returns who is inside then, and the hold of self.
local function grant_waiting(found, above, self, moved)
  local hold
  local waiting = redis.call('ZRANGE', queue, 0, batch)
  for i, owner in ipairs(waiting) do
    local room = i <= batch and has_room(found, owner)
    if owner == self.owner then
      if not room then
        break
      end
      leave(owner)
      found, hold = admit(found, owner, self.ttl, self.meta, above, waiting[i + 1])
    else
      local dead, subscribed = is_dead(owner, (room or moved) and patience or urgent)
      if not dead and subscribed and (room or moved) then
        dead = not publish(owner, room and '' or '+')
      end
      if not dead and not room then
        if moved then
          redis.call('HSET', seen, owner, number(at) .. (subscribed and '' or '-'))
        end
        break
      end
      leave(owner)
      if not dead then
        found = admit(found, owner, ack, '', above, waiting[i + 1])
      end
    end
    moved = true
  end
  return found, hold
end
