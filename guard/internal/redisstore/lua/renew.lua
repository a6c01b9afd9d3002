-- renew: give a hold at least its ttl from now, and note its depth and its present holder. Never
-- creates, never shortens.
--
-- KEYS  1 lock, 2 holders (see acquire), of an owner that tolerates others; once, of one with a record
-- ARGV  1 owner, 2 fence, 3 ttl (ms; 0: it only confirms, and sets the depth), 4 depth, 5 metadata
--       with a record: 6 for how long it outlives the lease (ms)
-- reply 1 renewed; 0 the owner does not hold the lock under this fence; 2 its hold was revoked
local lock, owner, ttl = KEYS[1], ARGV[1], ARGV[3]
local value = redis.call('HGET', lock, owner)
local ends
if value ~= ARGV[4] .. ' ' .. ARGV[2] .. ' 0 - ' .. ARGV[5] then
  -- include value
  local hold = parse(value)
  if not hold or hold.depth == '0' then
    return 0
  elseif hold.revoked then
    return 2
  elseif hold.fence ~= ARGV[2] then
    return 0
  end
  ends = hold.ends
  if ends ~= '0' then
    local time = redis.call('TIME')
    local at = time[1] * 1000000 + time[2]
    if ends + 0 <= at then
      return 0
    elseif at + ttl * 1000 > ends + 0 then
      ends = word(at + ttl * 1000)
    end
  end
  hold.depth, hold.ends, hold.meta = ARGV[4], ends, ARGV[5]
  if line(hold) ~= value then
    write(owner, line(hold))
    if ends ~= '0' then
      redis.call('ZADD', KEYS[2], ends, owner)
    end
  end
end
if ttl ~= '0' and redis.call('PTTL', lock) < ttl + 0 then
  redis.call('PEXPIRE', lock, ttl)
end
if ends and ends ~= '0' then
  redis.call('PEXPIRE', KEYS[2], redis.call('PTTL', lock))
end
if ARGV[6] and ttl ~= '0' then
  -- include get_record
  local state, _, _, who = get_record(KEYS[2])
  if state == 'begun' and who == owner then
    redis.call('PEXPIRE', KEYS[2], string.format('%.0f', ttl + ARGV[6]))
  end
end
return 1
