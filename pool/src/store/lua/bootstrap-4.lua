#!lua
-- Creates the pool in phase R. A tombstone is replaced by who has seen it: a call from before that pool, which comes late,
-- makes none. The caller has seen that nothing is there, and is either an explicit join or a node with a living, unfenced
-- worker.
-- KEYS: pool settings starts changes
-- ARGV: highest token and highest incarnation seen by the caller, run id, last incarnation that it knows to have been
--       shut down or 0, then (setting, value)*
-- Returns: CREATED inc | EXISTS inc | CLOSED
-- Publishes: all maps, new incarnation
--@base
--@clock
--@tokens
local known = call('HMGET', POOL, 'incarnation', 'closed')
if known[1] then return { 'EXISTS', known[1] } end
-- One that no pool can have had is none.
local closed = counted(known[2]) or 0
if closed > tonumber(argv[2]) then return { 'CLOSED' } end
local t = now()
local inc = num(math.max(tonumber(argv[2]) + 1, t))
local token = math.max(floor_at(t), seen_token(argv[1]))
call('DEL', POOL, SETTINGS)
call('HSET', POOL, 'server', argv[3], 'incarnation', inc, 'phase', 'R', 'token', num(token), 'workers_revision', 1,
  'settings_revision', 1, 'queued', 0, 'notified', 0)
closed = math.max(tonumber(argv[4]), closed)
if closed > 0 then call('HSET', POOL, 'closed', num(closed)) end
call('HSET', SETTINGS, unpack(argv, 5))
pcall(call, 'XGROUP', 'CREATE', STARTS, 'routers', '0', 'MKSTREAM')
call('SPUBLISH', CHANGES, cmsgpack.pack({ '*', inc }))
return { 'CREATED', inc }
