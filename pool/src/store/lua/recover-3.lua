#!lua flags=allow-oom
-- Starts another incarnation, in phase R, after any sign of a loss of data. The first caller wins. Where the data are those of
-- a pool that the caller knows to have ended, as they were before, their shutdown flag goes: it is not this pool's.
-- KEYS: pool settings changes
-- ARGV: inc expected, highest token and highest incarnation seen by the caller, run id, last incarnation that it knows
--       to have been shut down or 0, signs of the loss as renew answers them or ''
-- Returns: OK inc
-- Publishes: all maps, new incarnation; settings, without the flag
--@base
--@guard
--@clock
--@tokens
--@change
local head, refusal = guard(true, 'token', 'closed', 'lost')
if not head then return refusal end
local t, ended = now(), tonumber(argv[5])
-- One that no pool has is none: it is beyond what is counted exactly.
local function after(text)
  local n = tonumber(text)
  return n <= LAST_TOKEN and n + 1 or 0
end
local inc = num(math.max(after(head[1]), after(argv[3]), t))
-- A revision that no map has is none, too: it begins anew.
if not counted(head[3]) then call('HSET', POOL, 'workers_revision', '0') end
if not counted(head[4]) then call('HSET', POOL, 'settings_revision', '0') end
local closed = math.max(ended, counted(head[7]) or 0)
-- One that is used up stays so: it would give tokens out again.
local stored, begins = tonumber(head[6]), math.max(floor_at(t), seen_token(argv[2]))
if not stored or stored < begins then call('HSET', POOL, 'token', num(begins)) end
call('HSET', POOL, 'incarnation', inc, 'phase', 'R', 'server', argv[4])
if closed > 0 then call('HSET', POOL, 'closed', num(closed)) end
-- A recovery for another reason keeps the signs that are known.
local lost = match(head[8] or '', '^%l*$') or ''
for sign in string.gmatch(argv[6], '%l') do
  if not find(lost, sign, 1, true) then lost = lost .. sign end
end
if argv[6] ~= '' then call('HSET', POOL, 'lost', lost) end
if tonumber(head[1]) <= ended and call('HEXISTS', SETTINGS, 'shutdown') == 1 then
  mapput('settings', SETTINGS, POOL, 'settings_revision', CHANGES, inc, { 'shutdown', false })
end
call('SPUBLISH', CHANGES, cmsgpack.pack({ '*', inc }))
return { 'OK', inc }
