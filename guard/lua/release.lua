-- release: free a lock if the owner holds it and grant it to whoever waits first; else
-- leave the queue. On demand, put the owner's next claim into the queue in the same
-- step, and see to it that no acquire of the owner that is still on its way is heeded.
--
-- KEYS  1 lock, 2 queue, 3 last, 4 seen (see acquire)
-- ARGV  1 owner, 2 prefix of the channels, 3 1 if PUBLISH counts every receiver,
--       4 ttl (ms), 5 fence (0 = not known), 6 how long to remember the fence (ms),
--       7 bury (1 or 0), 8 next owner ('' = none), 9 its metadata
-- reply {1, …}  freed; {2} this owner had released it before; {0} it does not hold it
--       {1, 1, fence}            the next claim holds the lock
--       {1, 0, place, in front}  the next claim is queued
local owner, fence, keep, bury, heir = ARGV[1], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1', ARGV[8]
if not fence or not keep or not tonumber(ARGV[4]) then
  return redis.error_reply('ERR guard: ttl, fence and keep must be numbers')
end

local hold = redis.call('HMGET', KEYS[1], owner, '@fence')
local high = math.max(fence, tonumber(hold[2] or 0))
if hold[1] then
  keep = math.max(keep, redis.call('PTTL', KEYS[3]))
  redis.call('DEL', KEYS[1])
  local token = string.format('%.0f', high)
  redis.call('SET', KEYS[3], token .. ' ' .. owner, 'PX', string.format('%.0f', keep))
  if heir == '' and not bury and redis.call('EXISTS', KEYS[2]) == 0 then
    return {1}
  end
end
-- include take
-- include queue

local at = micros()
local led = not hold[1] and first() == owner
local before = not hold[1] and released(owner)
if bury then
  -- Sweeping first also makes the first write one that frees, which Redis allows when
  -- memory is full.
  redis.call('ZREMRANGEBYSCORE', queue, '(' .. whole(-at), '0')
  redis.call('HDEL', seen, owner)
  redis.call('ZADD', queue, whole(-at - forget * 1000), string.match(owner, '^[^~]*'))
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

if heir ~= '' and over(heir) then
  heir = '' -- it was given up before this command arrived
end
local place = heir ~= '' and join(heir, 0, at)
local who, won = grant(heir, ARGV[4], ARGV[9], at, high, ARGV[6])
if heir == '' then
  return {1}
elseif who == heir then
  return {1, 1, won}
end
return {1, 0, whole(place), front(place)}
