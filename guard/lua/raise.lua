-- raise: make sure that the fences of later holders are above one, if the owner holds
-- the lock on this server of a quorum.
--
-- KEYS  1 lock, 2 last (see acquire)
-- ARGV  1 owner, 2 fence, 3 how long to remember the fence (ms)
-- reply 1 it is remembered, 0 the owner does not hold the lock
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
local fence = tonumber(ARGV[2])
local last = redis.call('GET', KEYS[2])
if not last or tonumber(string.match(last, '^%d+')) < fence then
  local time = redis.call('TIME')
  local ahead = math.max(fence - (time[1] * 1000000 + time[2]), 0)
  local keep = string.format('%.0f', tonumber(ARGV[3]) + math.ceil(ahead / 1000))
  redis.call('SET', KEYS[2], string.format('%.0f ', fence), 'PX', keep)
  redis.call('HSET', KEYS[1], '@ahead', '1') -- see take
end
return 1
