-- release: let an owner out, or have the rest of its MinHold go by before; the claim in front
-- gets in. An owner that is not in leaves the queue.
--
-- KEYS  as acquire
-- ARGV  1 owner, 2 ttl (ms), 3 highest fence handed out (0 = not known), 4 tombstone (1: an
--       acquire of the owner may still come), 5 MinHold (ms, 0 = none), 6 prefix of the channels
--       with a record: 7 done, unkept, begun (it is not known how the work ended) or failed, 8 fingerprint, 9 for how long it lives (ms), 10 1: at
--       most once, 11 metadata, 12 result
-- reply 1 it is out; 3 the same, and its hold had been revoked; 4 its MinHold has not ended; 2 it had
--       been released before; 0 it does not hold the lock
local lock, last, owner, ttl, fence = KEYS[1], KEYS[3], ARGV[1], ARGV[2], ARGV[3]
local time = redis.call('TIME')
local at = time[1] .. string.sub('00000' .. time[2], -6)
if ARGV[4] == '0' and ARGV[5] == '0' then
  local freed
  -- include free
  if freed then
    if KEYS[6] then
      local said = 1
      -- include outcome
    end
    return 1
  end
end
-- include lock
-- include queue

local mine = look(owner)
local first = redis.call('ZRANGEBYSCORE', queue, '(0', '+inf', 'LIMIT', 0, 1)[1]
local said, rest = 0, 0
if mine and mine.depth ~= '0' then
  said = inside.over and 0 or mine.revoked and 3 or 1
  if said == 1 and ARGV[5] ~= '0' and not inside.several then
    -- Since the grant, and for no longer than asked for, whatever became of the clock.
    local since = string.match(mine.flags, 'a(%d+)') or mine.fence
    rest = math.max(math.min(ARGV[5] + 0, math.ceil(ARGV[5] - (at - since) / 1000)), 0)
  end
  local high = less(fence, inside.fence) and inside.fence or fence
  if rest > 0 then
    said, inside.limit = 4, 1
    mine.depth, mine.ends = '0', later(at, rest)
    write(owner, line(mine))
    redis.call('PEXPIRE', lock, rest)
  else
    drop({owner})
  end
  note(high, owner, redis.call('GET', last), rest)
else
  mine = nil
  if released(owner) then
    said = 2
  end
end
if ARGV[4] == '1' then
  -- Sweeping first also makes the first write one that frees, which Redis allows when memory is full.
  redis.call('ZREMRANGEBYSCORE', queue, '(-' .. at, '0')
  redis.call('HDEL', seen, owner)
  local claim = string.match(owner, '^[^~]*')
  redis.call('ZADD', queue, word(-at - forget * 1000), claim)
  expire(queue, forget, 'ZREM', queue, claim)
  redis.call('PEXPIRE', seen, forget) -- one without the other would say that nobody asked
elseif not mine then
  leave(owner)
end
if first and (mine or first == owner) then
  prune()
  if inside.limit > 1 then
    serve('', 0, '', '0')
  elseif first == owner then
    notify_head(owner)
  end
end
if KEYS[6] then
  -- include outcome
  if written then -- what waits, in this process or elsewhere, learns of it together
    for _, other in ipairs(redis.call('ZRANGEBYSCORE', queue, '(0', '+inf', 'LIMIT', 0, most)) do
      publish(other, '')
    end
  end
end
return inside.error or said
