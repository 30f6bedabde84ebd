#!lua flags=no-writes
-- A page of the notifications that wait for a job, the oldest first: at most 16, and 256 KiB, but one at least.
-- KEYS: jo jn
-- ARGV: key, number of the first one that is wanted, or 0
-- Returns: OK, 1 if more follow, number of the first, or of the next one that comes, body* | NONE no such job | BAD the queue's header does not parse
--@base
--@notes
local key, from = argv[1], tonumber(argv[2])
if call('HEXISTS', JO, key) == 0 then return { 'NONE' } end
local header = call('HGET', JN, 'h:' .. key)
if not header then return { 'OK', 0, 0 } end
local _, first, next_ = span_of(header)
if not first then return { 'BAD' } end
first = math.min(math.max(first, from), next_)
local out, bytes, at = { 'OK', 0, num(first) }, 0, first
while at < next_ and at < first + 16 and bytes <= 262144 do
  local body = call('HGET', JN, num(at) .. ':' .. key) or ''
  out[#out + 1], bytes, at = body, bytes + #body, at + 1
end
if at < next_ then out[2] = 1 end
return out
