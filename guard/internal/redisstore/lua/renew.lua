-- renew: give holds at least their ttl from now, and note their depth and their present holder. It never creates a
-- hold, and never shortens one. One call takes any number of holds.
--
-- KEYS  of each hold: lock; of one that goes by itself, also holders, if it tolerates others, or once, if it has a record
-- ARGV  of each hold: owner, fence, ttl (ms; 0: it only confirms, and sets the depth), depth, metadata; with a record, for
--       how long that outlives the lease (ms)
-- reply of each hold, in order, words: held <clock (µs)> · lost: the owner does not hold the lock under this fence ·
--       revoked
-- include hold
local time = redis.call('TIME')
local at, replies = time[1] * 1000000 + time[2], {}
for i = 1, math.floor(#ARGV / 5) do
  local lock, a = KEYS[i], 5 * i - 4
  local owner, ttl = ARGV[a], tonumber(ARGV[a + 2])
  local value = redis.pcall('HGET', lock, owner)
  local hold = type(value) == 'string' and decode(value)
  if type(value) == 'table' then
    replies[i] = value
  elseif not hold or hold.depth == '0' or hold.ends <= at then
    replies[i] = 'lost'
  elseif hold.revoked then
    replies[i] = 'revoked'
  elseif hold.fence ~= tonumber(ARGV[a + 1]) then
    replies[i] = 'lost'
  else
    hold.depth, hold.meta, hold.ends = ARGV[a + 3], ARGV[a + 4], math.max(hold.ends, at + ttl * 1000)
    -- That comes first: Redis lets a script write although memory is full if its first write needs none.
    if limit_of(owner) == 1 then
      redis.call('PEXPIREAT', lock, number(math.ceil(hold.ends / 1000)))
    else
      local life = number(math.max(redis.call('PTTL', lock), ttl))
      redis.call('PEXPIRE', lock, life)
      redis.call('ZADD', KEYS[2], number(hold.ends), owner)
      redis.call('PEXPIRE', KEYS[2], life)
    end
    redis.call('HSET', lock, owner, encode(hold))
    replies[i] = 'held ' .. number(at)
    if #ARGV == 6 and ttl > 0 then -- the record is its own: it wrote that it began when it got the lock
      redis.call('PEXPIRE', KEYS[2], number(ttl + ARGV[6]))
    end
  end
end
return replies
