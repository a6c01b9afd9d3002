-- acquire: take a free lock, confirm a hold or a grant, or wait in the queue.
--
-- KEYS  1 lock   hash    <owner> -> depth, @fence, @meta, @ahead if last lives for longer
--                        than usual: 1 if that is because the fence is ahead of the
--                        clock, and @since then (µs, the server's clock); @revoked, its
--                        fence, if nobody may renew the hold any more; in place of an owner,
--                        @done -> who it was, until the MinHold of its hold is over; has a
--                        ttl; absent = free. Anything else is somebody's
--       2 queue  zset    waiting owners by place (µs of server time); owners that are
--                        over by -(µs at which that is forgotten)
--       3 last   string  "<highest fence> <owner that released last>"
--       4 seen   hash    <owner> -> when it last asked (µs), + if it knows that it is one
--                        of the first two
-- ARGV  1 owner, 2 prefix of the channels, after a 1 if PUBLISH counts every receiver,
--       3 ttl (ms), 4 place ('' = not to be queued if the lock is busy, 0 = none yet),
--       5 metadata, 6 what the fence must be above, 7 (1 or nothing) whether replicas are
--       to be waited for: that takes a write
-- reply {1, fence}     the owner holds the lock
--       {1, fence, 1}  the same, under a fence that is ahead of the server's clock
--       {0, remaining ttl (ms; -1 = for ever), metadata, place, in front}  another one
--             does; place is 0 if the owner is not queued
--       {0, …, -1}     the same, but none does: its MinHold is not over
--       {0, …, limit}  the same, and holders tolerate each other: the strictest limit (0 = none, see share)
--       {-1}  the owner is over: a late command, or its hold was revoked; nothing changed
local owner, ttl, meta, above = ARGV[1], tonumber(ARGV[3]), ARGV[5], ARGV[6]
if not ttl or ttl < 1 or not string.find(above, '^%d+$') or not string.find(ARGV[4], '^%d*$') then
  return redis.error_reply('ERR guard: ttl, place and above must be numbers, ttl at least 1')
end
-- include clock
-- include take

if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local fence, ahead = take(KEYS[1], KEYS[3], owner, ttl, meta, now(), above)
  return fence and held(fence, ahead) or {-1}
end

local hold = redis.pcall('HMGET', KEYS[1], owner, '@fence', '@meta', '@ahead', '@revoked', '@done', '@soon', '@many')
if hold.err then
  if not string.find(hold.err, 'WRONGTYPE', 1, true) then
    return hold
  end
  hold = {}
end
local mine = hold[1] and hold[2]
if mine and hold[5] then
  return {-1}
end
if mine and not less(above, hold[2]) then
  -- Whoever granted it did not know what its fence must be above.
  return held(take(KEYS[1], KEYS[3], owner, ttl, meta, now(), above))
end
if mine then
  if (hold[3] or '') ~= meta then
    redis.call('HDEL', KEYS[1], '@meta')
    redis.call('HSET', KEYS[1], '@meta', meta)
  end
  local left = redis.call('PTTL', KEYS[1])
  if left < ttl or ARGV[7] == '1' then
    redis.call('PEXPIRE', KEYS[1], math.max(left, ttl))
  end
  return held(hold[2], hold[4] == '1')
end
-- include expire
-- include queue

local at = now()
if hold[7] and not less(at, hold[7]) then
  -- include holders
  local inside = {fence = hold[2]}
  prune(inside, at, ttl)
  if inside.n == 0 then
    hold = {}
  end
end
local place = redis.call('ZSCORE', queue, owner)
local taken = hold[2] or redis.call('EXISTS', KEYS[1]) == 1
local done = hold[6] and 1 or nil
if has_tombstone(owner, place) or ((not taken or done) and released(owner)) then
  return {-1}
end
local wants, front = ARGV[4] ~= '', 0
if wants then
  place, front = join(owner, place, ARGV[4], at)
end
if not taken then
  -- Free, but others may have waited longer: the holder crashed, or never came for it.
  local who, fence, _, ahead = grant(owner, ttl, meta, at, above)
  if who == owner then
    return held(fence, ahead)
  end
  if not who and not wants then
    return held(take(KEYS[1], KEYS[3], owner, ttl, meta, at, above))
  end
  front = wants and ahead_of(place) or 0
end
return {0, redis.call('PTTL', KEYS[1]), hold[3] or '', wants and place or '0', front, done and -1 or tonumber(hold[8] or nil)}
