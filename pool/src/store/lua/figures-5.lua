#!lua flags=no-writes
-- How many jobs there are, who has them, and how long the oldest new one has waited.
-- KEYS: pool jobs queue owners parked
-- ARGV: how many entries of `queue` to look at, at most 1,024; wid*
-- Returns: OK, the clock, jobs, never begun, owned, parked, when the oldest job was accepted that was never begun or '',
--          1 if `queue` has more entries than were looked at, then the jobs of each worker
--@base
--@clock
local head = call('HMGET', POOL, 'incarnation', 'queued')
if not head[1] then return { call('HEXISTS', POOL, 'closed') == 1 and 'CLOSED' or 'NOPOOL' } end

-- A key of another type counts as empty.
local function size(...)
  local n = redis.pcall(...)
  return type(n) == 'number' and n or 0
end

local look = math.min(tonumber(argv[1]), 1024)
local keys = redis.pcall('ZRANGE', QUEUE, 0, look - 1)
local stored = not keys.err and #keys > 0 and redis.pcall('HMGET', JOBS, unpack(keys)) or {}
local oldest
for i = 1, #stored do
  local r = stored[i]
  local created = r and match(r, '^1|[QA]|%d*|%d+|%d+|0|%d+|[^|]+|(%d+)|')
  if created and #created < 16 then oldest = math.min(oldest or 2 ^ 53, tonumber(created)) end
end
local queued = head[2] and #head[2] < 16 and match(head[2], '^%d+$') or '0'
local out = { 'OK', num(now()), size('HLEN', JOBS), queued, size('ZCARD', OWNERS), size('ZCARD', PARKED),
  oldest and num(oldest) or '', size('ZCARD', QUEUE) > look and 1 or 0 }
for i = 2, #argv do out[#out + 1] = size('ZLEXCOUNT', OWNERS, '[' .. argv[i] .. ':', '(' .. argv[i] .. ';') end
return out
