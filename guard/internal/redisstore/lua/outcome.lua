-- What release does with a record: it writes the outcome if the owner held the lock until now and
-- the record is not another owner's, or at most once also if no other owner began since. Of work
-- that failed, what stays is that an owner before began, and never finished. Asked twice, it lets
-- the record live on.
--
-- KEYS  6 once (see get_record)
-- ARGV  4 done, unkept or failed, 5 fingerprint, 6 for how long it lives (ms), 7 1: at most once, 8 metadata, 9 result
-- include get_record
local state, began, before, who, input, since, holder = get_record(keys[6])
local written
local free = not state or state == 'damaged' or who == owner
local own = who == owner and state == 'begun'
if (said == 'released' or said == 'kept') and free or own and args[7] == '1' then
  if args[4] ~= 'failed' then
    redis.call('SET', keys[6], '1 ' .. args[4] .. ' ' .. (own and began or number(high)) .. ' 0 ' .. owner .. ' ' .. args[5] .. ' ' .. number(at) ..
      ' ' .. #args[8] .. ' ' .. args[8] .. args[9], 'PX', args[6])
    written = true
  elseif own and before ~= '0' then
    redis.call('SET', keys[6], '1 begun ' .. before .. ' 0 - ' .. input .. ' ' .. since .. ' ' .. #holder .. ' ' .. holder, 'PX', args[6])
  elseif own then
    redis.call('DEL', keys[6])
  end
elseif who == owner and state ~= 'begun' then
  redis.call('PEXPIRE', keys[6], args[6])
end
if written then -- what waits, in this process or elsewhere, learns of it together
  for _, other in ipairs(redis.call('ZRANGE', key.queue, 0, most)) do
    publish(other, '')
  end
end
