-- What release does with a record: it writes the outcome if the owner held the lock until now and
-- the record is not another owner's, or at most once also if no other owner began since. Of work
-- that failed, what stays is that an owner before began, and never finished. Asked twice, it lets
-- the record live on.
local was = redis.pcall('GET', KEYS[6])
local state, began, before, who, rest =
  string.match(type(was) == 'string' and was or '', '^1 (%a+) (%d+) (%d+) (%S+) (.*)$')
local kept
local own = who == owner and state == 'begun'
if (said == 1 or said == 4) and (not who or who == owner) or own and ARGV[10] == '1' then
  if ARGV[7] ~= 'failed' then
    redis.call('SET', KEYS[6], '1 ' .. ARGV[7] .. ' ' .. (own and began or fence) .. ' 0 ' .. owner .. ' ' .. ARGV[8] .. ' ' .. at .. ' ' ..
      #ARGV[11] .. ' ' .. ARGV[11] .. ARGV[12], 'PX', ARGV[9])
    kept = true
  elseif own and before ~= '0' then
    redis.call('SET', KEYS[6], '1 begun ' .. before .. ' 0 - ' .. rest, 'PX', ARGV[9])
  elseif own then
    redis.call('DEL', KEYS[6])
  end
elseif who == owner and state ~= 'begun' then
  redis.call('PEXPIRE', KEYS[6], ARGV[9])
end
