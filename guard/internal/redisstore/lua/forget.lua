-- forget: delete the record of a lock, if it is still the record that was seen, and the owner that began does not hold
-- the lock. Without arguments it says which record there is.
--
-- KEYS  1 lock, 2 once (see acquire)
-- ARGV  1 the state of the record, or "damaged" if it is none, 2 its fence, or 0
-- reply without ARGV: {state, fence}, or 0 if there is none
--       else: 1 it is deleted; 0 it is not there any more; 2 its owner holds the lock
-- include get_record
redis.call('GET', KEYS[2]) -- an error if another type of value is there: that is not ours
local record = get_record(KEYS[2])
if not record or ARGV[1] and (record.state ~= ARGV[1] or record.fence ~= ARGV[2]) then
  return 0
elseif not ARGV[1] then
  return {record.state, record.fence}
elseif record.state == 'begun' and is_inside(KEYS[1], record.owner) then
  return 2
end
redis.call('DEL', KEYS[2])
return 1
