#!lua
-- Creates the pool in phase R. A tombstone is replaced. The caller has seen that nothing is there, and is either an
-- explicit join or a node with a living, unfenced worker.
-- KEYS: m cf ps ch
-- ARGV: highest token and highest incarnation seen by the caller, run id, then (setting, value)*
-- Returns: CREATED inc | EXISTS inc
-- Publishes: all maps, new incarnation
--@base
--@clock
local present = call('HGET', M, 'inc')
if present then return { 'EXISTS', present } end
local t = now()
local inc = num(math.max(tonumber(argv[2]) + 1, t))
local token = math.max((t - 1735689600000) * 4096, tonumber(argv[1]))
call('DEL', M, CF)
call('HSET', M, 'rid', argv[3], 'inc', inc, 'ph', 'R', 'tok', num(token), 'mv', 1, 'cv', 1, 'nq', 0, 'nt', 0)
call('HSET', CF, unpack(argv, 4))
pcall(call, 'XGROUP', 'CREATE', PS, 'r', '0', 'MKSTREAM')
call('SPUBLISH', CH, cmsgpack.pack({ '*', inc }))
return { 'CREATED', inc }
