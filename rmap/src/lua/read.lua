#!lua flags=no-writes
-- Reads a map in one atomic step.
-- KEYS: meta hash
-- ARGV: incarnation field, revision field, then the incarnation and the revision that the caller has, or nothing
-- Returns: {} without a map | {inc, rev} when the caller has them | {inc, rev, {field, value, ...}}
local head = redis.call('HMGET', KEYS[1], ARGV[1], ARGV[2])
local inc, rev = head[1], head[2] or '0'
if not inc then return {} end
if inc == ARGV[3] and rev == ARGV[4] then return { inc, rev } end
return { inc, rev, redis.call('HGETALL', KEYS[2]) }
