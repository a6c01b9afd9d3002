-- get_record returns the parts of the record under a key: its state, its fence, the fence of the earlier beginning, the
-- owner, the fingerprint, when it was written (µs), the metadata and the result. The state is nil if there is nothing,
-- and "damaged" if it is no record.
local function get_record(key)
  local text = redis.pcall('GET', key)
  if not text then
    return nil
  elseif type(text) == 'table' then
    if not string.find(text.err, 'WRONGTYPE', 1, true) then
      error(text.err, 0)
    end
    text = ''
  end
  local state, fence, before, who, input, since, length, rest =
    string.match(text, '^1 (%a+) (%d+) (%d+) (%S+) (%S+) (%d+) (%d+) (.*)$')
  length = state and length + 0
  if (state == 'begun' or state == 'done' or state == 'unkept') and length <= #rest then
    return state, fence, before, who, input, since, string.sub(rest, 1, length), string.sub(rest, length + 1)
  end
  return 'damaged', '0', '0', '', '-', '0', '', ''
end
