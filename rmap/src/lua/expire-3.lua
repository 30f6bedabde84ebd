-- Deletes entries that are due.
-- KEYS: meta hash deadlines
-- ARGV: name, channel, incarnation field, revision field, how many at most
-- Returns: {how many, seconds, microseconds}, the time by the server's clock
local time = redis.call('TIME')
local inc = redis.call('HGET', KEYS[1], ARGV[3])
if not inc then return { 0, time[1], time[2] } end
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, ARGV[5])
local changes = {}
for i, field in ipairs(due) do changes[2 * i - 1], changes[2 * i] = field, false end
if #due > 0 then mapput(ARGV[1], KEYS[2], KEYS[1], ARGV[4], ARGV[2], inc, changes, KEYS[3]) end
return { #due, time[1], time[2] }
