-- What release does with a record: it writes the outcome if the owner held the lock until now and the record is not
-- another owner's, or at most once also if no other owner began since. Of work that failed, the record keeps that an
-- earlier owner began, and never finished. Asked twice, it lets the record live on. See internal/docs/protocol-once.md.
-- include get_record
local once, outcome, fingerprint, life, at_most_once = KEYS[6], ARGV[4], ARGV[5], ARGV[6], ARGV[7] == '1'
local meta, result = ARGV[8], ARGV[9]
local record = get_record(once)
local mine = record and record.owner == owner
local began = mine and record.state == 'begun'
local free = not record or record.state == 'damaged' or mine
if free and (said == 'released' or said == 'kept') or began and at_most_once then
  if outcome ~= 'failed' then
    local text = {'1', outcome, began and record.fence or number(high), 0, owner, fingerprint, number(at), #meta, meta}
    redis.call('SET', once, table.concat(text, ' ') .. result, 'PX', life)
    for _, other in ipairs(redis.call('ZRANGE', queue, 0, 63)) do
      publish(other, '') -- all that wait, in this process or elsewhere, learn of it
    end
  elseif began and record.earlier ~= '0' then
    local text = {'1 begun', record.earlier, 0, '-', record.fingerprint, record.since, #record.meta, record.meta}
    redis.call('SET', once, table.concat(text, ' '), 'PX', life)
  elseif began then
    redis.call('DEL', once)
  end
elseif mine and not began then
  redis.call('PEXPIRE', once, life)
end
