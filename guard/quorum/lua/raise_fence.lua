-- raise_fence: make sure that the fences of later holders are above one, if the owner holds
-- the lock on this server of a quorum.
--
-- KEYS  1 lock, 2 ended (see acquire)
-- ARGV  1 owner, 2 fence
-- reply held: it is remembered, if it is ahead of this server's clock · lost: the owner does not hold the lock
-- include hold
local hold = decode(redis.call('HGET', KEYS[1], ARGV[1]))
if not hold or hold.depth == '0' then
  return 'lost'
end
remember(KEYS[2], tonumber(ARGV[2]), server_time())
return 'held'
