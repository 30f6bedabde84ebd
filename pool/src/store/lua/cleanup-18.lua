#!lua flags=allow-oom
-- The last one out: deletes every key of a stopping pool without members, and leaves a tombstone.
-- KEYS: m w hb dw cf jo jp bw q pk je jn ps tb od sc pi ch
-- ARGV: inc, time for the tombstone ms
-- Returns: OK jobs dropped | MEMBERS count | NOTSTOPPING
-- Publishes: all maps, closed
--@base
--@guard
--@settings
--@member
local head, refusal = guard(true)
if not head then return refusal end
if not is_stopping(call('HGET', CF, 'sd')) then return { 'NOTSTOPPING' } end
local members, all = 0, call('HGETALL', W)
for i = 1, #all, 2 do
  if is_member(all[i], all[i + 1]) then members = members + 1 end
end
-- Whom no client can read, nobody reaps.
for _, wid in ipairs(call('HKEYS', DW)) do
  if match(wid, '^%d+$') and #wid <= 19 then members = members + 1 end
end
if members > 0 then return { 'MEMBERS', members } end
local dropped = call('HLEN', JO)
call('UNLINK', M, W, HB, DW, CF, JO, JP, BW, Q, PK, JE, JN, PS, TB, OD, SC, PI)
call('HSET', M, 'closed', argv[1])
call('PEXPIRE', M, argv[2])
call('SPUBLISH', CH, cmsgpack.pack({ 'closed', argv[1] }))
return { 'OK', dropped }
