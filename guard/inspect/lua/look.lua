-- look: how one lock stands, at one instant. It writes nothing.
--
-- KEYS  1 lock, 2 queue, 3 last, 4 seen, 5 wake (see acquire and wait)
-- ARGV  1 how many of those who wait to tell of
-- reply {server clock (s), the rest of it (µs), type of the lock, remaining ttl (ms), its
--        fields and values, last, how many wait, {owner, place, when it asked, …}}
local time = redis.call('TIME')
local kind = redis.call('TYPE', KEYS[1]).ok
local fields, left = {}, -2
if kind == 'hash' then
  fields, left = redis.call('HGETALL', KEYS[1]), redis.call('PTTL', KEYS[1])
end

local waiting, many = {}, 0
for _, queue in ipairs({KEYS[2], KEYS[5]}) do
  local some = redis.call('ZRANGEBYSCORE', queue, '(0', '+inf', 'WITHSCORES', 'LIMIT', '0', ARGV[1])
  many = many + redis.call('ZCOUNT', queue, '(0', '+inf')
  for i = 1, #some, 2 do
    waiting[#waiting + 1] = some[i]
    waiting[#waiting + 1] = string.format('%.0f', some[i + 1])
    waiting[#waiting + 1] = queue == KEYS[2] and redis.call('HGET', KEYS[4], some[i]) or ''
  end
end
return {time[1], time[2], kind, left, fields, redis.call('GET', KEYS[3]) or '', many, waiting}
