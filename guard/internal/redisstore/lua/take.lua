-- same says whether two owners are one claim: what comes after a ~ tells the rounds of a
-- claim on a quorum apart.
local function same(a, b)
  if a == b then
    return true
  end
  local rounds = string.find(a, '~', 1, true) or string.find(b, '~', 1, true)
  return rounds and string.match(a, '^[^~]*') == string.match(b, '^[^~]*')
end

-- restore leaves last as it was. had is its ttl (ms).
local function restore(last, old, had)
  if not old then
    redis.pcall('DEL', last)
  elseif had < 0 then
    redis.pcall('SET', last, old)
  else
    redis.pcall('SET', last, old, 'PX', math.max(had, 1))
  end
end

-- take gives the lock to an owner, unless it is over, and returns the fence, and whether
-- that is ahead of the clock. A fence follows the server's clock, so that it grows even when
-- Redis forgot the last one; where the clock is behind, it is one above the last one, and
-- last lives until the clock has caught up. The first write is one that Redis refuses when
-- memory is full. If it refuses a later one, nothing stays: least of all a lock without an
-- end.
local function take(lock, last, who, ttl, meta, at, above)
  local had = redis.call('PTTL', last)
  local old = redis.call('SET', last, at .. ' ', 'PX', lasting(ttl, at, at, had), 'GET')
  local fence, high = at, above
  local space = old and string.find(old, ' ', 1, true)
  if space then
    local highest = string.sub(old, 1, space - 1)
    if same(string.sub(old, space + 1), who) then
      restore(last, old, had)
      return
    end
    -- No client takes a number of 2^53 or more for a fence.
    if less(high, highest) and string.find(highest, '^%d+$') and less(highest, '9007199254740991') then
      high = highest
    end
  end
  local ahead = not less(high, at)
  if ahead then
    fence = string.format('%.0f', high + 1)
    redis.call('SET', last, fence .. ' ', 'PX', lasting(ttl, fence, at, had))
  end
  local done
  if meta == '' then
    done = redis.pcall('HSET', lock, who, '1', '@fence', fence)
  else
    done = redis.pcall('HSET', lock, who, '1', '@fence', fence, '@meta', meta)
  end
  if type(done) == 'number' and (ahead or had > least) then
    -- The next owner of the instance is not to get the lock without a word to the server,
    -- which would mint the same fence again. And release asks for how long last was to live.
    -- A fence that is ahead does not say when the hold began.
    done = redis.pcall('HSET', lock, '@ahead', ahead and '1' or '0', '@since', at)
  end
  if type(done) == 'number' then
    done = redis.pcall('PEXPIRE', lock, ttl)
  end
  if type(done) ~= 'number' then
    if type(redis.pcall('DEL', lock)) == 'table' then
      redis.pcall('HDEL', lock, who, '@fence', '@meta', '@ahead', '@since')
    end
    restore(last, old, had)
    error(done.err, 0)
  end
  return fence, ahead
end

-- held is the reply to an owner that holds the lock.
local function held(fence, ahead)
  return ahead and {1, fence, 1} or {1, fence}
end
