-- share: acquire for an owner that tolerates others, up to a limit: it gets in if the
-- count with it is within its own limit and within that of everybody inside.
--
-- KEYS  1 lock   hash    <owner> -> "<fence> <expiry (µs)> <metadata>", with a ! behind the
--                        fence if somebody revoked the hold; @fence the highest,
--                        @many the strictest limit (0 = none), @soon no later than the first
--                        expiry, @meta of the latest; its ttl is no shorter than any expiry
--       2 queue, 3 last, 4 seen (see acquire)
-- ARGV  as acquire; the owner says its limit: <instance>-<limit>.<number>, 0 = any number
-- reply as acquire; busy is {0, time until the next holder may be over (ms), metadata, place,
--       in front, strictest limit inside (0 = none)}
local owner, ttl, meta, above = ARGV[1], tonumber(ARGV[3]), ARGV[5], ARGV[6]
if not ttl or ttl < 1 or not string.find(above, '^%d+$') or not string.find(ARGV[4], '^%d*$') then
  return redis.error_reply('ERR guard: ttl, place and above must be numbers, ttl at least 1')
end
-- include clock
-- include take
-- include holders
-- include admit
if tolerates(owner) == 1 then
  return redis.error_reply('ERR guard: the owner tolerates nobody')
end

local at = now()
if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local fence = admit(nobody(), owner, ttl, meta, at, above)
  return fence and {1, fence} or {-1}
end
local mine, high, inside, shown, revoked = look(owner)
if inside and not less(at, inside.soon) then
  prune(inside, at, ttl)
  mine = inside.n > 0 and redis.call('HGET', KEYS[1], owner)
  high, shown = inside.n > 0 and high, inside.n > 0 and shown or ''
elseif inside and not mine and redis.call('EXISTS', KEYS[2]) == 0 and fits(inside, owner, at, ttl) then
  return {1, admit(inside, owner, ttl, meta, at, above)}
end
-- include expire
-- include queue
-- include serve

local place = redis.call('ZSCORE', queue, owner)
if mine then
  local fence, expiry = high, later(at, ttl)
  if revoked then
    return {-1}
  elseif not inside then
    -- It was granted for an ack window, as an exclusive owner is.
    if not less(above, fence) then
      fence = take(KEYS[1], KEYS[3], owner, ttl, meta, at, above)
    end
    inside = nobody()
    inside.n, inside.fence = 1, fence
  else
    local mark, until_
    fence, mark, until_ = string.match(mine, '^(%d+)(!?) (%d+) ')
    if mark ~= '' then
      return {-1}
    end
    if less(expiry, until_) then
      expiry = until_
    end
    if not less(above, fence) then
      -- Whoever granted it did not know what its fence must be above.
      fence = mint(inside, ttl, at, above)
    end
  end
  put(inside, owner, fence, expiry, ttl, meta)
  if redis.call('EXISTS', queue) == 1 then
    serve(inside, '', ttl, '', at, '0')
  end
  return {1, fence}
end

if has_tombstone(owner, place) or (not high and released(owner)) then
  return {-1}
end
local wants, front = ARGV[4] ~= '', 0
if wants then
  place, front = join(owner, place, ARGV[4], at)
end
if inside or not high then
  inside = inside or nobody()
  local fence = serve(inside, wants and owner or '', ttl, meta, at, above)
  if not wants and fits(inside, owner, at, ttl) and redis.call('ZCOUNT', queue, '(0', '+inf') == 0 then
    fence = admit(inside, owner, ttl, meta, at, above)
  end
  if fence then
    return {1, fence}
  end
  front = wants and ahead_of(place) or 0
end
local left, many = redis.call('PTTL', KEYS[1]), 0
if inside and inside.n > 0 and not inside.exclusive then
  left = math.min(left, math.ceil((inside.soon - at) / 1000))
  many = inside.many == math.huge and 0 or inside.many
end
return {0, left, shown, wants and place or '0', front, many}
