#!lua flags=no-writes
-- How many jobs queues have.
-- KEYS: meta queues counts ready index
-- ARGV: inc, queue*
-- Returns: OK, then per queue: settings or '', ready, running, delayed, waiting or paused, failed and kept, and the totals
--          done, failed, cancelled
--@base
local out = { 'OK' }
local function within(key, prefix) return num(call('ZLEXCOUNT', key, '[' .. prefix .. '|', '(' .. prefix .. '}')) end
for i = 2, #argv do
  local name, z = argv[i], #out
  local of = call('HMGET', COUNTS, name .. '|running', name .. '|delayed', name .. '|waiting', name .. '|done', name .. '|failed',
    name .. '|cancelled')
  out[z + 1], out[z + 2], out[z + 3], out[z + 4], out[z + 5] = call('HGET', QUEUES, name) or '', within(READY, name),
    num(counted(of[1])), num(counted(of[2])), num(counted(of[3]))
  out[z + 6], out[z + 7], out[z + 8], out[z + 9] = within(INDEX, 'f:' .. name), num(counted(of[4])),
    num(counted(of[5])), num(counted(of[6]))
end
return out
