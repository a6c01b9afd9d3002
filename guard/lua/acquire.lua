-- acquire: take a free lock, or confirm a hold.
--
-- KEYS  1 lock   hash    <owner> -> depth, @fence, @meta; has a ttl; absent = free
--       2 queue  zset    owners that are over, by -(µs of server time at which that is forgotten)
--       3 last   string  "<highest fence> <owner that released last>"
-- ARGV  1 owner, 2 ttl (ms), 3 metadata
-- reply {1, fence}                     the owner holds the lock
--       {0, remaining ttl (ms), meta}  another one does
--       {-1}                           the owner is over: a late command, nothing changed
local owner, ttl = ARGV[1], tonumber(ARGV[2])
if not ttl or ttl < 1 then
  return redis.error_reply('ERR guard: ttl must be at least 1 ms')
end

local last = redis.call('GET', KEYS[3])
local high, released = 0, ''
if last then
  local space = string.find(last, ' ', 1, true)
  high = tonumber(string.sub(last, 1, space - 1))
  released = string.sub(last, space + 1)
end
if released == owner or redis.call('ZSCORE', KEYS[2], owner) then
  return {-1}
end

local hold = redis.call('HMGET', KEYS[1], owner, '@fence', '@meta')
if hold[1] then
  if redis.call('PTTL', KEYS[1]) < ttl then
    redis.call('PEXPIRE', KEYS[1], ttl)
  end
  return {1, hold[2]}
end
if hold[2] then
  return {0, redis.call('PTTL', KEYS[1]), hold[3] or ''}
end

-- A fence follows the server's clock so that it grows even when Redis forgot the last
-- one; where the clock is behind, last lives until the clock has caught up.
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local fence = math.max(micros, high + 1)
local token = string.format('%.0f', fence)
local keep = math.max(2 * ttl, 60000) + math.ceil((fence - micros) / 1000)
redis.call('HSET', KEYS[1], owner, '1', '@fence', token, '@meta', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ttl)
redis.call('SET', KEYS[3], token .. ' ' .. released, 'PX', string.format('%.0f', keep))
return {1, token}
