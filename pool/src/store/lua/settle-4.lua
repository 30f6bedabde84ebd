#!lua
-- A standby takes a slot of its own: the lowest that is free. While nobody is up, all standbys do, so that each job is
-- placed once.
-- KEYS: pool workers heartbeats changes
-- ARGV: inc, wid
-- Returns: OK entry first (1: it is up, and nobody may have been before) | FENCED
-- Publishes: workers, an entry for each of them and, when the ring grows, its size
--@base
--@guard
--@clock
--@ring
--@seats
--@change
local head, refusal = guard(true)
if not head then return refusal end
local wid = argv[2]
local entry = call('HGET', WORKERS, wid)
if not entry then return { 'FENCED' } end
local state = sub(entry, 1, 1)
if state ~= 'P' then return { 'OK', entry, state == 'U' and '1' or '0' } end
local used, _, _, _, all = ring()
local up, waiting = living(all, now())
if up > 0 then waiting = {} end
waiting[wid] = entry
local changes = {}
seat_all(changes, used, waiting)
mapput('workers', WORKERS, POOL, 'workers_revision', CHANGES, argv[1], changes)
return { 'OK', call('HGET', WORKERS, wid), up == 0 and '1' or '0' }
