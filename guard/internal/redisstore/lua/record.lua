-- What acquire does for a claim with a record: it returns where there is nothing to run, and
-- sets begin, which writes that the owner began.
local time = redis.call('TIME')
at = time[1] .. string.sub('00000' .. time[2], -6)
local was, earlier = redis.call('GET', KEYS[6]), '0'
if was then
  local state, high, before, who, input, since, rest =
    string.match(was, '^1 (%a+) (%d+) (%d+) (%S+) (%S+) (%d+) (.*)$')
  if not state then
    return redis.error_reply('ERR guard: the record is not one')
  end
  local age = string.format('%.0f', math.max(at - since, 0))
  if input ~= '-' and ARGV[8] ~= '-' and input ~= ARGV[8] then
    return {'other', high, age, ''}
  elseif state ~= 'begun' then
    return {state, high, age, rest}
  elseif who == owner then
    earlier = before
  else
    local hold = redis.pcall('HGET', lock, who)
    if ARGV[10] == '1' and not (type(hold) == 'string' and string.find(hold, '^[1-9]')) then
      return {'begun', high, age, rest}
    end
    earlier = high
  end
end
begin = function(text)
  redis.call('SET', KEYS[6], '1 begun ' .. string.match(text, '%d+') .. ' ' .. earlier .. ' ' .. owner .. ' ' .. ARGV[8] ..
    ' ' .. at .. ' ' .. #meta .. ' ' .. meta, 'PX', ARGV[9])
  return {text, earlier}
end
