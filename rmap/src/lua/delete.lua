-- Deletes a field.
-- KEYS: meta hash
-- ARGV: map, channel, field
-- Returns: {inc, rev, previous value} when it was there | {}
local before = redis.call('HGET', KEYS[2], ARGV[3])
if not before then return {} end
local inc = incarnation(KEYS[1])
return { inc, mapput(ARGV[1], KEYS[2], KEYS[1], 'rev', ARGV[2], inc, { ARGV[3], false }), before }
