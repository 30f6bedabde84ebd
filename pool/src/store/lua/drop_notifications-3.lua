#!lua flags=allow-oom
-- Drops the notifications of a job that have a number up to the one named. A queue whose header does not parse is dropped
-- whole, without the bodies that nobody can find.
-- KEYS: m jo jn
-- ARGV: inc, key, number of the last one that goes
-- Returns: OK, how many still wait | NONE no such job
--@base
--@guard
--@notes
local head, refusal = guard(true)
if not head then return refusal end
local key, through = argv[2], tonumber(argv[3])
if call('HEXISTS', JO, key) == 0 then return { 'NONE' } end
local header = call('HGET', JN, 'h:' .. key)
if not header then return { 'OK', 0 } end
local _, first, next_, size = span_of(header)
if not first then
  call('HDEL', JN, 'h:' .. key)
  return { 'OK', 0 }
end
local keep, gone = math.min(through + 1, next_), {}
if keep <= first then return { 'OK', next_ - first } end
for seq = first, keep - 1 do
  local field = num(seq) .. ':' .. key
  gone[#gone + 1] = field
  size = size - call('HSTRLEN', JN, field)
end
if keep < next_ then
  call('HSET', JN, 'h:' .. key, num(keep) .. '|' .. num(next_) .. '|' .. num(math.max(size, 0)))
else
  gone[#gone + 1] = 'h:' .. key
end
call('HDEL', JN, unpack(gone))
return { 'OK', next_ - keep }
