#!lua flags=allow-oom
-- Starts another incarnation, in phase R, after any sign of a loss of data. The first caller wins.
-- KEYS: m ch
-- ARGV: inc expected, highest token and highest incarnation seen by the caller, run id
-- Returns: OK inc
-- Publishes: all maps, new incarnation
--@base
--@guard
--@clock
local head, refusal = guard(true)
if not head then return refusal end
local t = now()
local inc = num(math.max(tonumber(head[1]) + 1, tonumber(argv[3]) + 1, t))
local stored = tonumber(call('HGET', M, 'tok')) or 0
local token = math.max((t - 1735689600000) * 4096, tonumber(argv[2]), stored)
call('HSET', M, 'inc', inc, 'ph', 'R', 'tok', num(token), 'rid', argv[4])
call('SPUBLISH', CH, cmsgpack.pack({ '*', inc }))
return { 'OK', inc }
