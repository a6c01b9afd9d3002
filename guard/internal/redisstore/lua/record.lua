-- What acquire does for a claim with a record: it returns where there is nothing to run, and
-- sets begin, which writes that the owner began, and returns the fence of the owner that began before.
--
-- KEYS  6 once (see get_record)
-- ARGV  6 fingerprint, 7 for how long the record outlives the lease (ms), 8 1: at most once
-- reply recorded <"other", "damaged" or the record's state> <its fence> <its age (µs)> <length of its metadata> <metadata><result>
-- include get_record
local time = call('TIME')
clock = time[1] .. string.sub('00000' .. time[2], -6)
local earlier = '0'
local state, began, before, who, input, since, holder, result = get_record(keys[6])
if state then
  local function recorded(word, age, meta, text)
    return {'recorded ' .. word .. ' ' .. began .. ' ' .. age .. ' ' .. #meta .. ' ' .. meta .. text}
  end
  local age = string.format('%.0f', math.max(clock - since, 0))
  if input ~= '-' and args[6] ~= '-' and input ~= args[6] then
    return recorded('other', age, '', '')
  elseif state == 'damaged' then
    return recorded(state, '0', '', '')
  elseif state ~= 'begun' then
    return recorded(state, age, holder, result)
  elseif who == args[2] then
    earlier = before
  else
    local hold = redis.pcall('HGET', keys[1], who)
    if args[8] == '1' and not (type(hold) == 'string' and string.find(hold, '^[1-9]')) then
      return recorded(state, age, holder, '')
    end
    earlier = began
  end
end
begin = function(fence)
  call('SET', keys[6], '1 begun ' .. fence .. ' ' .. earlier .. ' ' .. args[2] .. ' ' .. args[6] ..
    ' ' .. clock .. ' ' .. #args[4] .. ' ' .. args[4], 'PX', string.format('%.0f', args[3] + args[7]))
  return earlier
end
