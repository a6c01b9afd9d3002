-- What acquire does for a claim with a record: it returns where there is nothing to run, and
-- sets begin, which writes that the owner began.
-- include get_record
local time = redis.call('TIME')
at = time[1] .. string.sub('00000' .. time[2], -6)
local earlier = '0'
local state, began, before, who, input, since, holder, result = get_record(KEYS[6])
if state then
  local age = string.format('%.0f', math.max(at - since, 0))
  if input ~= '-' and ARGV[8] ~= '-' and input ~= ARGV[8] then
    return {'other', began, age, '', ''}
  elseif state == 'damaged' then
    return {state, began, '0', '', ''}
  elseif state ~= 'begun' then
    return {state, began, age, holder, result}
  elseif who == owner then
    earlier = before
  else
    local hold = redis.pcall('HGET', lock, who)
    if ARGV[10] == '1' and not (type(hold) == 'string' and string.find(hold, '^[1-9]')) then
      return {state, began, age, holder, ''}
    end
    earlier = began
  end
end
begin = function(text)
  redis.call('SET', KEYS[6], '1 begun ' .. string.match(text, '%d+') .. ' ' .. earlier .. ' ' .. owner .. ' ' .. ARGV[8] ..
    ' ' .. at .. ' ' .. #meta .. ' ' .. meta, 'PX', string.format('%.0f', ARGV[2] + ARGV[9]))
  return {text, earlier}
end
