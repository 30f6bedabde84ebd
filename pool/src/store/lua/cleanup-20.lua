#!lua flags=allow-oom
-- The last one out: deletes every key of a stopping pool without members, and leaves a tombstone.
-- KEYS: pool workers heartbeats expired settings jobs payloads owners queue parked errors notifications checkpoints
--       starts ended outcomes schedules planned history changes
-- ARGV: inc, time for the tombstone ms
-- Returns: OK jobs dropped | MEMBERS count | NOTSTOPPING
-- Publishes: all maps, closed
--@base
--@guard
--@settings
--@member
local head, refusal = guard(true)
if not head then return refusal end
if not is_stopping(call('HGET', SETTINGS, 'shutdown')) then return { 'NOTSTOPPING' } end
local members, all = 0, call('HGETALL', WORKERS)
for i = 1, #all, 2 do
  if is_member(all[i], all[i + 1]) then members = members + 1 end
end
-- Whom no client can read, nobody reaps.
for _, wid in ipairs(call('HKEYS', EXPIRED)) do
  if match(wid, '^%d+$') and #wid <= 19 then members = members + 1 end
end
if members > 0 then return { 'MEMBERS', members } end
local dropped = call('HLEN', JOBS)
call('UNLINK', POOL, WORKERS, HEARTBEATS, EXPIRED, SETTINGS, JOBS, PAYLOADS, OWNERS, QUEUE, PARKED, ERRORS,
  NOTIFICATIONS, CHECKPOINTS, STARTS, ENDED, OUTCOMES, SCHEDULES, PLANNED, HISTORY)
call('HSET', POOL, 'closed', argv[1])
call('PEXPIRE', POOL, argv[2])
call('SPUBLISH', CHANGES, cmsgpack.pack({ 'closed', argv[1] }))
return { 'OK', dropped }
