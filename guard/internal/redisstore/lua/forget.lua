-- forget: delete the record of a lock, unless the owner that began holds it.
--
-- KEYS  1 lock, 2 once (see acquire)
-- reply 1 it is deleted; 0 there is none; 2 its owner holds the lock
local was = redis.call('GET', KEYS[2])
if not was then
  return 0
end
local who = string.match(was, '^1 begun %d+ %d+ (%S+) ')
local hold = who and redis.pcall('HGET', KEYS[1], who)
if type(hold) == 'string' and string.find(hold, '^[1-9]') then
  return 2
end
redis.call('DEL', KEYS[2])
return 1
