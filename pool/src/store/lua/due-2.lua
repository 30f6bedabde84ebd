#!lua flags=no-writes
-- The jobs that the sweeper takes up next, the soonest first.
-- KEYS: jobs queue
-- ARGV: how many, 1 to 1,024
-- Returns: OK, {key, record or '', ..}
--@base
local found = redis.pcall('ZRANGE', QUEUE, 0, math.max(1, math.min(tonumber(argv[1]), 1024)) - 1)
local jobs = {}
if found.err or #found == 0 then return { 'OK', jobs } end -- a key of another type counts as empty
local records = call('HMGET', JOBS, unpack(found))
for i, key in ipairs(found) do
  jobs[2 * i - 1], jobs[2 * i] = key, records[i] or ''
end
return { 'OK', jobs }
