#!lua flags=no-writes
-- Reads a map in one atomic step.
-- KEYS: meta hash, and deadlines of a map that has them
-- ARGV: incarnation field, revision field, then incarnation, revision and stamp that the caller has, or nothing
-- Returns: {seconds, microseconds}, the time by the server's clock, alone when the caller has what there is, else
-- followed by {} without a map | {inc, rev, stamp, life or false, {field, value, ...}, {field, deadline, ...}}
local time = redis.call('TIME')
local head = redis.call('HMGET', KEYS[1], ARGV[1], ARGV[2], ARGV[2] .. ':at', ARGV[2] .. ':ttl')
local inc, rev, stamp = head[1], head[2] or '0', head[3] or '0'
local is_same = ARGV[3] == (inc or nil) and (not inc or rev == ARGV[4] and stamp == ARGV[5])
if is_same then return time end
if not inc then return { time[1], time[2], {} } end
local entries = redis.call('HGETALL', KEYS[2])
local deadlines = KEYS[3] and redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES') or {}
return { time[1], time[2], { inc, rev, stamp, head[4], entries, deadlines } }
