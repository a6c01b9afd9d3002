-- release: free a lock if the owner holds it and grant it to whoever waits first; else
-- leave the queue. On demand, put the owner's next claim into the queue in the same
-- step, and see to it that no acquire of the owner that is still on its way is heeded.
--
-- KEYS  1 lock, 2 queue, 3 last, 4 seen (see queue)
-- ARGV  1 owner, 2 channels, 3 counts (see queue), 4 ttl (ms), 5 fence (0 = not known),
--       6 bury (1 or 0), 7 next owner ('' = none), 8 its metadata
-- reply {1, …}  freed; {2} this owner had released it before; {0} it does not hold it
--       {1, 1, fence}            the next claim holds the lock
--       {1, 0, place, in front}  the next claim is queued
local ttl, fence, bury, heir = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6] == '1', ARGV[7]
if not ttl or not fence then
  return redis.error_reply('ERR guard: ttl and fence must be numbers')
end

local function tombstone()
  if bury then
    local at = micros()
    -- Sweeping first also makes this script's first write one that frees, which Redis
    -- allows when memory is full.
    redis.call('ZREMRANGEBYSCORE', queue, '(' .. whole(-at), '0')
    redis.call('HDEL', seen, owner)
    redis.call('ZADD', queue, whole(-at - forget * 1000), owner)
    redis.call('PEXPIRE', queue, forget)
  end
end

local hold = redis.call('HMGET', lock, owner, '@fence')
if not hold[1] then
  local last = redis.call('GET', KEYS[3])
  local led = first() == owner
  if bury then
    tombstone()
  else
    leave(owner)
  end
  if led then
    lead(owner, micros())
  end
  return {names(last, owner) and 2 or 0}
end

local high = math.max(fence, tonumber(hold[2]))
local keep = math.max(2 * ttl, 60000, redis.call('PTTL', KEYS[3]))
redis.call('DEL', lock)
redis.call('SET', KEYS[3], whole(high) .. ' ' .. owner, 'PX', whole(keep))
tombstone()
if heir ~= '' and tonumber(redis.call('ZSCORE', queue, heir) or 0) < 0 then
  heir = '' -- it was given up before this command arrived
end
if heir == '' then
  if first() then
    grant('', 0, '', micros(), high)
  end
  return {1}
end

local at = micros()
local place, front = join(heir, 0, at)
local who, won = grant(heir, ttl, ARGV[8], at, high)
if who == heir then
  return {1, 1, won}
end
return {1, 0, whole(place), math.max(front - 1, 0)}
