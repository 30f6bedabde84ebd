#!lua flags=allow-oom
-- Starts another incarnation, in phase R, after any sign of a loss of data. The first caller wins. Where the data are those of
-- a pool that the caller knows to have ended, as they were before, their shutdown flag goes: it is not this pool's.
-- KEYS: m cf ch
-- ARGV: inc expected, highest token and highest incarnation seen by the caller, run id, last incarnation that it knows to have
--       been shut down or 0
-- Returns: OK inc
-- Publishes: all maps, new incarnation; cf, without the flag
--@base
--@guard
--@clock
--@change
local head, refusal = guard(true)
if not head then return refusal end
local t, ended = now(), tonumber(argv[5])
local inc = num(math.max(tonumber(head[1]) + 1, tonumber(argv[3]) + 1, t))
local known = call('HMGET', M, 'tok', 'closed')
local stored = tonumber(known[1]) or 0
local token = math.max((t - 1735689600000) * 4096, tonumber(argv[2]), stored)
local closed = math.max(ended, tonumber(known[2]) or 0)
call('HSET', M, 'inc', inc, 'ph', 'R', 'tok', num(token), 'rid', argv[4])
if closed > 0 then call('HSET', M, 'closed', num(closed)) end
if tonumber(head[1]) <= ended and call('HEXISTS', CF, 'sd') == 1 then
  mapput('cf', CF, M, 'cv', CH, inc, { 'sd', false })
end
call('SPUBLISH', CH, cmsgpack.pack({ '*', inc }))
return { 'OK', inc }
