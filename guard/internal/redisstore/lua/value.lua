-- word writes a whole number down.
local function word(n)
  return string.format('%.0f', n)
end

-- parse reads what the lock's hash has of a holder (see acquire); what is none gives nil.
local function parse(value)
  local depth, fence, ends, flags, meta = string.match(value or '', '^(%d+) (%d+) (%d+) (%S+) (.*)$')
  if depth then
    return {was = value, depth = depth, fence = fence, ends = ends, flags = flags, meta = meta,
      revoked = string.find(flags, 'r', 1, true)}
  end
end

-- flag notes something of a holder, and says whether that is new.
local function flag(hold, mark)
  if not string.find(hold.flags, mark, 1, true) then
    hold.flags = mark .. (hold.flags == '-' and '' or hold.flags)
    return true
  end
end

-- line is what the lock's hash is to have of a holder.
local function line(hold)
  return hold.depth .. ' ' .. hold.fence .. ' ' .. hold.ends .. ' ' .. hold.flags .. ' ' .. hold.meta
end

-- write notes a holder. Redis lets a script write when memory is full if its first write is one
-- that frees.
local function write(who, value)
  redis.call('HDEL', KEYS[1], '@')
  redis.call('HSET', KEYS[1], who, value)
end
