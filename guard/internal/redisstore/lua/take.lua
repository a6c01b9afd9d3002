-- What stands here takes a free lock that nobody waits for, as most calls do, and sets fence. Where
-- it leaves that nil, it changed nothing: the lock is not as most are, or Redis refused a write, and
-- refused says why.
local life, ends, mark = '60000', '', '-'
if ttl + 0 > 30000 then
  life, ends, mark = string.format('%.0f', 2 * ttl), string.format(' %.0f', at + 2000 * ttl), 'l'
end
local old = redis.pcall('SET', last, at .. ' ' .. ends, 'PX', life, 'GET')
if not old or type(old) == 'string' then
  -- As long as the clock is above it, another claim released last, and it is to live no longer.
  local try = string.find(owner, '~', 1, true)
  local claim = try and string.sub(owner, 1, try - 1) or owner
  if not old or old < at and string.byte(old, #at + 1) == 32 and string.sub(old, #at + 2, #at + 1 + #claim) ~= claim
    and (string.find(old, '^%d+ [^ ]*$') or mark == 'l' and (string.match(old, '^%d+ [^ ]*( %d+)$') or '9') <= ends) then
    local set = redis.pcall('HSET', lock, owner, '1 ' .. at .. ' 0 ' .. mark .. ' ' .. meta)
    if set == 1 then
      set = redis.pcall('PEXPIRE', lock, ttl)
    end
    if set == 1 then
      fence = at
    else
      refused = set
      redis.pcall('HDEL', lock, owner)
    end
  end
  if not fence and old then
    local high, till = string.match(old, '^(%d+) %S* ?(%d*)$')
    local ms = math.max(60000, till and till ~= '' and math.ceil((till - at) / 1000) or 0)
    if high and #high == #at and high > at then
      ms = math.max(ms, math.ceil((high - at) / 1000) + 60000)
    end
    redis.call('SET', last, old, 'PX', string.format('%.0f', ms))
  elseif not fence then
    redis.call('DEL', last)
  end
end
