-- release: free a lock if the owner holds it and grant it to whoever waits first; else
-- leave the queue. On demand, put the owner's next claim into the queue in the same
-- step, and see to it that no acquire of the owner that is still on its way is heeded.
--
-- KEYS  1 lock, 2 queue, 3 last, 4 seen (see acquire)
-- ARGV  1 owner, 2 prefix of the channels (see acquire), 3 ttl (ms), 4 fence (0 = not
--       known), 5 bury (1 or 0), 6 next owner ('' = none), 7 its metadata
-- reply {1, …}  freed; {2} this owner had released it before; {0} it does not hold it
--       {1, 1, fence}            the next claim holds the lock
--       {1, 1, fence, 1}         the same, under a fence that is ahead of the server's clock
--       {1, 0, place, in front}  the next claim is queued
--       a 3 in place of the first 1: the same, but the hold had been revoked
local owner, ttl, bury, heir = ARGV[1], tonumber(ARGV[3]), ARGV[5] == '1', ARGV[6]
if not ttl or not string.find(ARGV[4], '^%d+$') then
  return redis.error_reply('ERR guard: ttl and fence must be numbers')
end

-- include clock

local hold = redis.pcall('HMGET', KEYS[1], owner, '@fence', '@ahead')
if hold.err and not string.find(hold.err, 'WRONGTYPE', 1, true) then
  return hold -- else it is not ours, but the owner may be in the queue
end
local mine = hold[1] and hold[2]
local high, waiting, at, freed = ARGV[4], nil, stamp(), 1

-- remember notes the highest fence and who released.
local function remember()
  local had = hold[3] and redis.call('PTTL', KEYS[3])
  redis.call('SET', KEYS[3], high .. ' ' .. owner, 'PX', lasting(ttl, high, at, had))
end

if mine then
  local fence = hold[2]
  if #high < #fence or #high == #fence and high < fence then
    high = fence
  end
  if hold[3] and redis.call('HEXISTS', KEYS[1], '@revoked') == 1 then
    freed = 3 -- who revokes a hold sets @ahead, too
  end
  redis.call('DEL', KEYS[1])
  waiting = redis.call('ZRANGEBYSCORE', KEYS[2], '(0', '+inf', 'LIMIT', '0', '2')
  if heir == '' and not bury and not waiting[1] then
    remember()
    return {freed}
  end
end
-- include take
-- include expire
-- include queue

local led = not mine and redis.call('ZRANGEBYSCORE', queue, '(0', '+inf', 'LIMIT', 0, 1)[1] == owner
local before = not mine and released(owner)
if bury then
  -- Sweeping first also makes the first write one that frees, which Redis allows when
  -- memory is full.
  redis.call('ZREMRANGEBYSCORE', queue, '(-' .. at, '0')
  redis.call('HDEL', seen, owner)
  local claim = string.match(owner, '^[^~]*')
  redis.call('ZADD', queue, string.format('%.0f', -at - forget * 1000), claim)
  expire(queue, forget, 'ZREM', queue, claim)
  redis.call('PEXPIRE', seen, forget) -- one without the other would say that nobody asked
elseif not mine then
  leave(owner)
end
if not mine then
  if led then
    lead(owner, at)
  end
  return hold.err and hold or {before and 2 or 0}
end

local place
if heir ~= '' then
  local had = redis.call('ZSCORE', queue, heir)
  if buried(heir, had) then
    heir = '' -- it was given up before this command arrived
  else
    place = join(heir, had, '0', at)
    if not waiting[2] then
      waiting = nil -- it may be one of them
    end
  end
end
local who, won, front, ahead = grant(heir, ttl, ARGV[7], at, high, waiting)
if not who then
  remember()
end
if heir == '' then
  return {freed}
elseif who == heir then
  return ahead and {freed, 1, won, 1} or {freed, 1, won}
end
front = front or behind(place)
return {freed, 0, place, front}
