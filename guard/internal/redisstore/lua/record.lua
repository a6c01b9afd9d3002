-- What acquire does for a claim with a record: it returns where there is nothing to run, and
-- sets begin, which writes that the owner began, and returns the fence of the owner that began before.
--
-- KEYS  6 once (see get_record)
-- ARGV  6 fingerprint, 7 for how long the record outlives the lease (ms), 8 1: at most once
-- reply recorded <"other", "damaged" or the record's state> <its fence> <its age (µs)> <length of its metadata> <metadata><result>
-- include get_record
local owner, fingerprint = ARGV[2], ARGV[6]
local earlier = '0'
local record = get_record(KEYS[6])
if record then
  local function recorded(word, age, meta, result)
    return {'recorded ' .. word .. ' ' .. record.fence .. ' ' .. age .. ' ' .. #meta .. ' ' .. meta .. result}
  end
  local age = string.format('%.0f', math.max(now() - record.since, 0))
  if record.fingerprint ~= '-' and fingerprint ~= '-' and record.fingerprint ~= fingerprint then
    return recorded('other', age, '', '')
  elseif record.state == 'damaged' then
    return recorded('damaged', '0', '', '')
  elseif record.state ~= 'begun' then
    return recorded(record.state, age, record.meta, record.result)
  elseif record.owner == owner then
    earlier = record.earlier
  elseif ARGV[8] == '1' and not is_inside(KEYS[1], record.owner) then
    return recorded('begun', age, record.meta, '')
  else
    earlier = record.fence
  end
end
begin = function(fence)
  local text = table.concat({'1 begun', fence, earlier, owner, fingerprint, now(), #ARGV[4], ARGV[4]}, ' ')
  redis.call('SET', KEYS[6], text, 'PX', string.format('%.0f', ARGV[3] + ARGV[7]))
  return earlier
end
