-- raise_fence: make sure that the fences of later holders are above one, if the owner holds
-- the lock on this server of a quorum.
--
-- KEYS  1 lock, 2 last (see acquire)
-- ARGV  1 owner, 2 fence, 3 ttl (ms)
-- reply 1 it is remembered, 0 the owner does not hold the lock
-- include value
-- include number
local hold = parse(redis.call('HGET', KEYS[1], ARGV[1]))
if not hold or hold.depth == '0' then
  return 0
end
local fence, old = ARGV[2], redis.call('GET', KEYS[2])
local highest = old and string.match(old, '^%d+')
if not highest or less(highest, fence) then
  local time = redis.call('TIME')
  local at = time[1] * 1000000 + time[2]
  local ends = at + math.max(2 * ARGV[3], 60000) * 1000 + math.max(fence - at, 0)
  ends = math.max(ends, at + redis.call('PTTL', KEYS[2]) * 1000)
  -- A release then looks for how long last was to live.
  redis.call('SET', KEYS[2], fence .. '  ' .. word(ends), 'PX', word(math.ceil((ends - at) / 1000)))
  if flag(hold, 'l') then
    redis.call('HSET', KEYS[1], ARGV[1], line(hold))
  end
end
return 1
