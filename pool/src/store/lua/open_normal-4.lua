#!lua flags=allow-oom
-- Leaves phase R, once every member has attested in this incarnation. The caller has observed it for T, or may skip
-- that.
-- KEYS: m w hb ch
-- ARGV: inc
-- Returns: OK | WAIT wid
-- Publishes: all maps, new phase
--@base
--@guard
--@member
local head, refusal = guard(true)
if not head then return refusal end
if head[2] == 'N' then return { 'OK' } end
local facts, marks, marked = call('HGETALL', M), {}, {}
for i = 1, #facts, 2 do
  local wid = match(facts[i], '^a:(%d+)$')
  if wid then
    marks[#marks + 1] = facts[i]
    marked[wid] = facts[i + 1] == argv[1]
  end
end
local lowest, all = nil, call('HGETALL', W)
for i = 1, #all, 2 do
  local wid = all[i]
  if not marked[wid] and is_member(wid, all[i + 1]) and (not lowest or tonumber(wid) < tonumber(lowest)) then
    lowest = wid
  end
end
if lowest then return { 'WAIT', lowest } end
for i = 1, #marks, 1000 do call('HDEL', M, unpack(marks, i, math.min(i + 999, #marks))) end
call('HSET', M, 'ph', 'N')
call('SPUBLISH', CH, cmsgpack.pack({ '*', argv[1] }))
return { 'OK' }
