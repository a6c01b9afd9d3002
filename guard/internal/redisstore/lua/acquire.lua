-- acquire: take a free lock, get in beside holders that tolerate it, confirm a hold or a grant, or
-- wait in the queue.
--
-- KEYS  1 lock     hash    <owner> -> <depth> <fence> <end> <flags> <metadata>
--                          depth: open calls; 0: its work is done, its MinHold has not ended
--                          end: when its time ends (µs of the server's clock); 0: with the ttl
--                          flags: "-", or of these: r (revoked), w (a claim waits), l (last lives for
--                            longer than usual), a<µs> (the fence is ahead of the clock; since when)
--                          @fence: the highest, from when a second holder got in
--       2 queue    zset    waiting owners by place (µs); owners that have ended by -(µs until then)
--       3 last     string  <highest fence> <owner that released last>, and when it is forgotten
--                          (µs), if it lives for longer than a minute
--       4 seen     hash    waiting owner -> when it last asked (µs), "." and when it was notified
--                          again; "+" if it knows that it is in front, "-" if it has no subscription
--       5 holders  zset    from when a second one got in: owners by end, "limit <owner>" by -limit
--       6 once     string  if there is a record: 1 <state> <fence> <fence of the earlier beginning> <owner>
--                          <fingerprint or "-"> <when (µs)> <length of metadata> <metadata><result>
--                          state: begun, done, unkept
-- ARGV  1 owner, 2 ttl (ms), 3 metadata, 4 what the fence must be above, 5 place ('' = do not wait,
--       0 = none yet), 6 prefix of the channels, after a 1 if PUBLISH counts every receiver,
--       7 "w" if replicas are waited for, which takes a write; "u" if it has no subscription
--       with a record: 8 fingerprint, 9 for how long the record outlives the lease (ms), 10 1: at most once
-- reply fence   the owner holds the lock; with a "-" in front: the fence is ahead of the clock
--       0       the owner has ended: a late command, or its hold was revoked; nothing changed
--       {remaining ttl (ms; -1 = for ever), metadata, place (0: not queued), in front, strictest
--         limit inside (0 = any number), 1 if only a MinHold keeps it}
--       with a record: {fence, fence of the earlier beginning, or 0}, or nothing is to run:
--         {"other", "damaged" or the record's state, its fence, its age (µs), its metadata, its result}
local lock, last, owner, ttl, meta = KEYS[1], KEYS[3], ARGV[1], ARGV[2], ARGV[3]
local at, fence, refused, begin
if KEYS[6] then
  -- include record
end
if redis.call('EXISTS', lock, KEYS[2]) == 0 and ARGV[4] == '0' then
  local time = redis.call('TIME')
  at = time[1] .. string.sub('00000' .. time[2], -6)
  -- include take
  if fence or refused then
    return fence and begin and begin(fence) or fence or refused
  end
end
-- include lock
-- include queue

-- held is the reply to an owner that holds the lock.
local function held(fence, flags)
  local text = string.find(flags, 'a', 1, true) and '-' .. fence or fence
  return begin and begin(text) or text
end

local above, wants = ARGV[4], ARGV[5] ~= ''
at = at or now()
look(owner)
prune()
local mine = inside.mine
if mine and mine.depth ~= '0' then
  if mine.revoked then
    return 0
  end
  if not less(above, mine.fence) then
    local waits = string.find(mine.flags, 'w', 1, true)
    mine.fence, mine.flags = mint(owner, above) -- the server that granted it did not know
    if waits then
      flag(mine, 'w')
    end
  end
  keep(owner, mine, meta, string.find(ARGV[7], 'w', 1, true))
  if inside.limit > 1 and redis.call('EXISTS', queue) == 1 then
    serve('', 0, '', '0')
  end
  return held(mine.fence, mine.flags)
end

local flags
if fits(owner) and redis.call('EXISTS', queue) == 0 then
  fence, flags = admit(owner, ttl, meta, above)
  return fence and held(fence, flags) or 0
end
local place = redis.call('ZSCORE', queue, owner)
if has_tombstone(owner, place) or (inside.limit > 1 or inside.done) and released(owner) then
  return 0
end
local front = 0
if wants then
  place, front = join(owner, place, ARGV[5], string.find(ARGV[7], 'u', 1, true))
end
if inside.limit > 1 then
  fence, flags = serve(owner, ttl, meta, above)
  if not wants and fits(owner) and redis.call('ZCOUNT', queue, '(0', '+inf') == 0 then
    fence, flags = admit(owner, ttl, meta, above)
  end
  if fence then
    return held(fence, flags)
  end
  front = wants and ahead_of(place) or 0
end
return busy(owner, wants and place or '0', front)
