-- get_record returns the record under a key, nil if there is nothing. The state is "damaged" if it is no record.
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
  local state, fence, earlier, owner, fingerprint, since, length, rest =
    string.match(text, '^1 (%a+) (%d+) (%d+) (%S+) (%S+) (%d+) (%d+) (.*)$')
  length = tonumber(length)
  if length and length <= #rest and (state == 'begun' or state == 'done' or state == 'unkept') then
    return {state = state, fence = fence, earlier = earlier, owner = owner, fingerprint = fingerprint, since = since,
      meta = string.sub(rest, 1, length), result = string.sub(rest, length + 1)}
  end
  return {state = 'damaged', fence = '0', owner = '', fingerprint = '-', since = math.huge, meta = '', result = ''}
end

-- is_inside says whether an owner holds a lock, and works.
local function is_inside(lock, owner)
  local hold = redis.pcall('HGET', lock, owner)
  return type(hold) == 'string' and string.find(hold, '^[1-9]')
end
