-- What acquire does for a claim with a record: it returns if there is nothing to run. Else it sets begin, which
-- writes that the owner began, and returns the fence of the owner that began before. See protocol-once.md.
-- include get_record
local once, owner, fingerprint, keep, at_most_once = KEYS[6], ARGV[2], ARGV[6], ARGV[7], ARGV[8] == '1'
local earlier, record = '0', get_record(once)
if record then
  local said = record.state
  if record.fingerprint ~= '-' and fingerprint ~= '-' and record.fingerprint ~= fingerprint then
    said, record.meta, record.result = 'other', '', ''
  elseif said == 'begun' and (record.owner == owner or not at_most_once or is_inside(KEYS[1], record.owner)) then
    said, earlier = nil, record.owner == owner and record.earlier or record.fence
  end
  if said then
    local age = string.format('%.0f', math.max(now() - record.since, 0))
    return {table.concat({'recorded', said, record.fence, age, #record.meta, record.meta .. record.result}, ' ')}
  end
end
begin = function(fence)
  local text = table.concat({'1 begun', fence, earlier, owner, fingerprint, now(), #ARGV[4], ARGV[4]}, ' ')
  redis.call('SET', once, text, 'PX', string.format('%.0f', ARGV[3] + keep))
  return earlier
end
