#!lua flags=allow-oom
-- A worker's end: its counter, 0 if it is lost, has not moved for its time to live, or it leaves itself and nothing of
-- it runs. The oldest standby takes its slot, or, where nobody else is up, all standbys take slots; its jobs wait for reap.
-- Who has a counter and no entry has lost that one: whoever still knows the entry drops it.
-- KEYS: m w hb dw ch
-- ARGV: inc, wid, counter observed or '' (it leaves itself)
-- Returns: OK | GONE | RENEWED
-- Publishes: w, its entry and those of who takes slots and, when the ring grows, its size
--@base
--@guard
--@clock
--@ring
--@seats
--@change
local head, refusal = guard(true)
if not head then return refusal end
local wid = argv[2]
local entry = call('HGET', W, wid)
local counter = call('HGET', HB, wid)
if not entry and (call('HEXISTS', DW, wid) == 1 or argv[3] == '' or not counter) then
  return { call('HEXISTS', DW, wid) == 1 and 'OK' or 'GONE' }
end
-- When it was heard of last: now, if it speaks for itself. A counter that is lost, or no number, is 0.
local heard = argv[3] == '' and num(now()) or num(tonumber(counter) or 0)
if argv[3] ~= '' and heard ~= argv[3] then return { 'RENEWED' } end
local changes = { wid, false }
local slot = match(entry or '', '^[UG]|(%d+)|')
if slot and sub(entry, 1, 1) == 'U' then
  local used, _, oldest, standby, all = ring()
  local up, waiting = living(all, now(), wid)
  if up == 0 and next(waiting) then
    used[tonumber(slot)] = nil
    seat_all(changes, used, waiting)
  elseif oldest then
    changes[3], changes[4] = oldest, 'U|' .. slot .. sub(standby, 4)
  end
end
call('HDEL', HB, wid)
call('HSET', DW, wid, heard .. '|' .. (slot or ''))
mapput('w', W, M, 'mv', CH, argv[1], changes)
return { 'OK' }
