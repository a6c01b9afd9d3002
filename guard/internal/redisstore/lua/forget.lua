-- forget: delete the record of a lock, if it is still the record that was seen, and the owner that began does not hold
-- the lock. Without arguments it says which record there is. See internal/docs/protocol-once.md.
-- include get_record
local lock, once, state, fence = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
redis.call('GET', once) -- an error if another type of value is there: that is not ours
local record = get_record(once)
if not record or state and (record.state ~= state or record.fence ~= fence) then
  return 0
elseif not state then
  return {record.state, record.fence}
elseif is_inside(lock, record.owner) then
  return 2
end
redis.call('DEL', once)
return 1
