-- release: free a lock if the owner holds it and grant it to whoever waits first; else
-- leave the queue. On demand, put the owner's next claim into the queue in the same
-- step, and see to it that no acquire of the owner that is still on its way is heeded.
--
-- KEYS  1 lock, 2 queue, 3 last, 4 seen (see acquire)
-- ARGV  1 owner, 2 prefix of the channels (see acquire), 3 ttl (ms), 4 fence (0 = not
--       known), 5 bury (1 or 0), 6 next owner ('' = none), 7 its metadata
-- reply {1, …}  freed; {2} this owner had released it before; {0} it does not hold it
--       {1, 1, fence}            the next claim holds the lock
--       {1, 0, place, in front}  the next claim is queued
local owner, ttl, bury, heir = ARGV[1], tonumber(ARGV[3]), ARGV[5] == '1', ARGV[6]
if not ttl or not string.find(ARGV[4], '^%d+$') then
  return redis.error_reply('ERR guard: ttl and fence must be numbers')
end

local hold = redis.call('HMGET', KEYS[1], owner, '@fence', '@ahead')
local high, waiting = ARGV[4], nil

-- remember notes the highest fence and who released, for no shorter than it was to be.
local function remember()
  local keep = '60000'
  if ttl > 30000 or hold[3] then
    keep = string.format('%.0f', math.max(2 * ttl, 60000, redis.call('PTTL', KEYS[3])))
  end
  redis.call('SET', KEYS[3], high .. ' ' .. owner, 'PX', keep)
end

if hold[1] then
  local fence = hold[2]
  if #high < #fence or #high == #fence and high < fence then
    high = fence
  end
  redis.call('DEL', KEYS[1])
  waiting = redis.call('ZRANGEBYSCORE', KEYS[2], '(0', '+inf', 'LIMIT', '0', '2')
  if heir == '' and not bury and not waiting[1] then
    remember()
    return {1}
  end
end
-- include take
-- include queue

local at = stamp()
local led = not hold[1] and redis.call('ZRANGEBYSCORE', queue, '(0', '+inf', 'LIMIT', 0, 1)[1] == owner
local before = not hold[1] and released(owner)
if bury then
  -- Sweeping first also makes the first write one that frees, which Redis allows when
  -- memory is full.
  redis.call('ZREMRANGEBYSCORE', queue, '(-' .. at, '0')
  redis.call('HDEL', seen, owner)
  redis.call('ZADD', queue, string.format('%.0f', -at - forget * 1000), string.match(owner, '^[^~]*'))
  redis.call('PEXPIRE', queue, forget)
elseif not hold[1] then
  leave(owner)
end
if not hold[1] then
  if led then
    lead(owner, at)
  end
  return {before and 2 or 0}
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
local who, won, front = grant(heir, ttl, ARGV[7], at, high, waiting)
if not who then
  remember()
end
if heir == '' then
  return {1}
elseif who == heir then
  return {1, 1, won}
end
front = front or behind(place)
return {1, 0, place, front}
