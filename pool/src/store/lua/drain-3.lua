#!lua flags=allow-oom
-- A worker leaves the ring and keeps its jobs until they are handed off; the oldest standby takes its slot.
-- KEYS: pool workers changes
-- ARGV: inc, wid
-- Returns: OK entry | FENCED | RECOVERING
-- Publishes: workers, one or two entries
--@base
--@guard
--@ring
--@change
local head, refusal = guard(true)
if not head then return refusal end
local entry = call('HGET', WORKERS, argv[2])
-- While the pool recovers, its node may still report it.
if not entry then return { head[2] == 'R' and 'RECOVERING' or 'FENCED' } end
if sub(entry, 1, 1) == 'G' then return { 'OK', entry } end
local changes = { argv[2], 'G' .. sub(entry, 2) }
local slot = match(entry, '^U|(%d+)|')
if slot then
  local _, _, oldest, standby = ring()
  if oldest then changes[3], changes[4] = oldest, 'U|' .. slot .. sub(standby, 4) end
end
mapput('workers', WORKERS, POOL, 'workers_revision', CHANGES, argv[1], changes)
return { 'OK', changes[2] }
