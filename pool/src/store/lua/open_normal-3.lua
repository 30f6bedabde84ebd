#!lua flags=allow-oom
-- Leaves phase R, once no member of an earlier incarnation is left. The caller has observed this one for T, or may
-- skip that.
-- KEYS: m w ch
-- ARGV: inc
-- Returns: OK | WAIT wid
-- Publishes: all maps, new phase
--@base
--@guard
local head, refusal = guard(true)
if not head then return refusal end
if head[2] == 'N' then return { 'OK' } end
local lowest = nil
for _, wid in ipairs(call('HKEYS', W)) do
  if wid ~= 'size' and (not lowest or tonumber(wid) < tonumber(lowest)) then lowest = wid end
end
if lowest then return { 'WAIT', lowest } end
call('HSET', M, 'ph', 'N')
call('SPUBLISH', CH, cmsgpack.pack({ '*', argv[1] }))
return { 'OK' }
