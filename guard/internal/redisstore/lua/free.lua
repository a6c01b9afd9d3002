-- What stands here frees a lock that nobody waits for, as most calls do, and sets freed. Else it
-- changed nothing.
local hold = redis.pcall('HGET', lock, owner)
local high, mark
if type(hold) == 'string' then
  high, mark = string.match(hold, '^[1-9]%d* (%d+) 0 ([-l]) ')
end
if high then
  if #fence > #high or #fence == #high and fence > high then
    high = fence
  end
  if #high < #at or #high == #at and high <= at then
    local life, ends = '60000', ''
    if mark == 'l' or ttl + 0 > 30000 then
      local old = redis.pcall('GET', last)
      old = type(old) == 'string' and string.match(old, '^%d+ %S* (%d+)$') or at
      local ms = math.max(2 * ttl, 60000, math.ceil((old - at) / 1000))
      life, ends = string.format('%.0f', ms), ms > 60000 and string.format(' %.0f', at + ms * 1000) or ''
    end
    redis.call('DEL', lock)
    redis.call('SET', last, high .. ' ' .. owner .. ends, 'PX', life)
    freed = true
  end
end
