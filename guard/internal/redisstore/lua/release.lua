-- release: free a lock if the owner holds it and grant it to whoever waits first, or have
-- the rest of its MinHold go by before; else leave the queue. On demand, see to it that no
-- acquire of the owner that is still on its way is heeded.
--
-- KEYS  1 lock, 2 queue, 3 last, 4 seen (see acquire)
-- ARGV  1 owner, 2 prefix of the channels (see acquire), 3 ttl (ms), 4 fence (0 = not
--       known), 5 tombstone (1 or 0), 6 (or nothing) for how long since its grant the lock is
--       to be taken at least (ms)
-- reply {1} freed; {3} freed, and the hold had been revoked; {2} this owner had released it
--       before; {0} it does not hold it; {4, rest (ms)} not free yet
local owner, ttl, tombstone = ARGV[1], tonumber(ARGV[3]), ARGV[5] == '1'
if not ttl or not string.find(ARGV[4], '^%d+$') or not string.find(ARGV[6] or '1', '^%d+$') then
  return redis.error_reply('ERR guard: ttl, fence and MinHold must be numbers')
end

-- include clock

local hold = redis.pcall('HMGET', KEYS[1], owner, '@fence', '@ahead')
if hold.err and not string.find(hold.err, 'WRONGTYPE', 1, true) then
  return hold -- else it is not ours, but the owner may be in the queue
end
local mine = hold[1] and hold[2]
local high, waiting, at, freed = ARGV[4], nil, now(), 1

-- remember notes the highest fence and who released.
local rest = 0 -- for how many ms the lock stays taken
local function remember()
  local had = hold[3] and redis.call('PTTL', KEYS[3])
  if rest > 0 then
    had = math.max(had or 0, rest + math.max(2 * ttl, 60000)) -- for as long after that
  end
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
  if ARGV[6] and freed == 1 then
    -- Since the grant, and for no longer than asked for, whatever became of the clock.
    local since = redis.call('HGET', KEYS[1], '@since') or fence
    rest = math.min(tonumber(ARGV[6]), math.ceil(ARGV[6] - (at - since) / 1000))
  end
  if rest > 0 then
    -- First what frees, which Redis allows when memory is full. It has a ttl already.
    redis.call('HDEL', KEYS[1], owner)
    redis.call('HSET', KEYS[1], '@done', owner)
    redis.call('PEXPIRE', KEYS[1], rest)
  else
    redis.call('DEL', KEYS[1])
  end
  waiting = redis.call('ZRANGEBYSCORE', KEYS[2], '(0', '+inf', 'LIMIT', '0', '2')
  if not tombstone and not waiting[1] then
    remember()
    return rest > 0 and {4, rest} or {freed}
  end
end
-- include take
-- include expire
-- include queue

local led = not mine and redis.call('ZRANGEBYSCORE', queue, '(0', '+inf', 'LIMIT', 0, 1)[1] == owner
local before = not mine and released(owner)
if tombstone then
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
  if led and not hold.err and redis.call('HEXISTS', KEYS[1], '@many') == 1 then
    -- It kept out who goes well with those inside.
    -- include holders
    -- include admit
    -- include serve
    local _, _, inside = look(owner)
    if not less(at, inside.soon) then
      prune(inside, at, ttl)
    end
    serve(inside, '', ttl, '', at, '0')
  elseif led then
    notify_head(owner, at)
  end
  return hold.err and hold or {before and 2 or 0}
end

if rest > 0 then
  remember()
  return {4, rest}
end
if not grant('', ttl, '', at, high, waiting) then
  remember()
end
return {freed}
