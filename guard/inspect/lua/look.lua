-- look: how one lock stands, at one instant. It writes nothing.
--
-- KEYS  1 lock, 2 queue, 3 ended, 4 seen, 5 wake, 6 once (see acquire and peek)
-- ARGV  1 how many claims of the queue to return
-- reply {server clock (s), the rest of it (µs), type of the lock, remaining ttl (ms), its
--        fields and values, a fence ahead of the clock, how many wait, {owner, place, when it asked, …},
--        {state, fence, owner, when (µs), metadata, bytes of the result, remaining ttl (ms),
--        1 if its owner is at work}: {} if there is no record, {''} if it is not one}
local time = redis.call('TIME')
local kind = redis.call('TYPE', KEYS[1]).ok
local fields, left = {}, -2
if kind == 'hash' then
  fields, left = redis.call('HGETALL', KEYS[1]), redis.call('PTTL', KEYS[1])
end
local waiting, many = {}, 0
for _, queue in ipairs({KEYS[2], KEYS[5]}) do
  local some = redis.call('ZRANGE', queue, 0, ARGV[1] - 1, 'WITHSCORES')
  many = many + redis.call('ZCARD', queue)
  for i = 1, #some, 2 do
    waiting[#waiting + 1] = some[i]
    waiting[#waiting + 1] = string.format('%.0f', some[i + 1])
    waiting[#waiting + 1] = queue == KEYS[2] and redis.call('HGET', KEYS[4], some[i]) or ''
  end
end
local record, life = {}, redis.call('PTTL', KEYS[6])
if life ~= -2 then
  -- The result may be long, and is not shown.
  local head = redis.call('GETRANGE', KEYS[6], 0, 4095)
  local front, state, fence, owner, at, length = string.match(head, '^(1 (%a+) (%d+) %d+ (%S+) %S+ (%d+) (%d+) )')
  local size = front and redis.call('STRLEN', KEYS[6]) - #front - length
  if not size or size < 0 then
    record = {''}
  else
    local hold = kind == 'hash' and redis.call('HGET', KEYS[1], owner)
    local works = state == 'begun' and hold and string.find(hold, '^[1-9]') or 0 -- else 1, where it begins
    record = {state, fence, owner, at, string.sub(head, #front + 1, #front + length), size, life, works}
  end
end
local high = redis.call('ZSCORE', KEYS[3], '@fence')
return {time[1], time[2], kind, left, fields, high and string.format('%.0f', high) or '', many, waiting, record}
