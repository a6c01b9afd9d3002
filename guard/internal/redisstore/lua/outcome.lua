-- What release does with a record: it writes the outcome if the owner held the lock until now and
-- the record is not another owner's, or at most once also if no other owner began since. Of work
-- that failed, what stays is that an owner before began, and never finished. Asked twice, it lets
-- the record live on.
-- include get_record
local state, began, before, who, input, since, holder = get_record(KEYS[6])
local written
local free = not state or state == 'damaged' or who == owner
local own = who == owner and state == 'begun'
if (said == 1 or said == 4) and free or own and ARGV[10] == '1' then
  if ARGV[7] ~= 'failed' then
    redis.call('SET', KEYS[6], '1 ' .. ARGV[7] .. ' ' .. (own and began or fence) .. ' ' .. (own and ARGV[7] == 'begun' and before or '0') .. ' ' ..
      owner .. ' ' .. ARGV[8] .. ' ' .. at .. ' ' .. #ARGV[11] .. ' ' .. ARGV[11] .. ARGV[12], 'PX', ARGV[9])
    written = true
  elseif own and before ~= '0' then
    redis.call('SET', KEYS[6], '1 begun ' .. before .. ' 0 - ' .. input .. ' ' .. since .. ' ' .. #holder .. ' ' .. holder, 'PX', ARGV[9])
  elseif own then
    redis.call('DEL', KEYS[6])
  end
elseif who == owner and state ~= 'begun' then
  redis.call('PEXPIRE', KEYS[6], ARGV[9])
end
