-- unshare: release for an owner that tolerates others. Whoever waits in front gets in, for
-- as long as they fit. It is also how an owner gives up that may have been granted the
-- lock as an exclusive one.
--
-- KEYS  1 lock (see share), 2 queue, 3 last, 4 seen (see acquire)
-- ARGV  1 owner, 2 prefix of the channels (see acquire), 3 ttl (ms), 4 tombstone (1 or 0)
-- reply {1} it is out; {3} it is, and its hold had been revoked; {2} this owner had
--       released the lock before; {0} it does not hold it
local owner, ttl, tombstone = ARGV[1], tonumber(ARGV[3]), ARGV[4] == '1'
if not ttl or ttl < 1 then
  return redis.error_reply('ERR guard: ttl must be a number, at least 1')
end
-- include clock
-- include take
-- include holders
-- include admit

local at = now()
local mine, high, inside, _, revoked = look(owner)
local held = mine
if mine and inside then
  local mark, expiry = string.match(mine, '^%d+(!?) (%d+) ')
  held, revoked = less(at, expiry), mark ~= ''
  redis.call('HDEL', KEYS[1], owner)
  inside.n = inside.n - 1
end
local freed = mine and (not inside or inside.n == 0)
if freed then
  redis.call('DEL', KEYS[1])
  inside = nobody()
end

-- remember notes the highest fence and who released.
local function remember()
  redis.call('SET', KEYS[3], high .. ' ' .. owner, 'PX', lasting(ttl, high, at, redis.call('PTTL', KEYS[3])))
end

if mine and not tombstone and redis.call('EXISTS', KEYS[2]) == 0 then
  if freed then
    remember()
  end
  return {held and (revoked and 3 or 1) or 0}
end
-- include expire
-- include queue
-- include serve

local led = redis.call('ZRANGEBYSCORE', queue, '(0', '+inf', 'LIMIT', 0, 1)[1] == owner
local before = not mine and released(owner)
if tombstone then
  -- Sweeping first also makes the first write one that frees, which Redis allows when
  -- memory is full.
  redis.call('ZREMRANGEBYSCORE', queue, '(-' .. at, '0')
  redis.call('HDEL', seen, owner)
  redis.call('ZADD', queue, later('-' .. at, -forget), owner)
  expire(queue, forget, 'ZREM', queue, owner)
  redis.call('PEXPIRE', seen, forget) -- one without the other would say that nobody asked
elseif not mine then
  leave(owner)
end
if inside or not high then
  inside = inside or nobody()
  if inside.n > 0 and not less(at, inside.soon) then
    prune(inside, at, ttl)
  end
  serve(inside, '', ttl, '', at, freed and high or '0')
  if freed and inside.n == 0 then
    remember()
  end
elseif led then
  notify_head(owner, at)
end
return {held and (revoked and 3 or 1) or before and 2 or 0}
