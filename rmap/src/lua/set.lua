-- Sets a field.
-- KEYS: meta hash
-- ARGV: map, channel, field, value
-- Returns: {inc, rev, previous value or false}
local inc = incarnation(KEYS[1])
local before = redis.call('HGET', KEYS[2], ARGV[3])
return { inc, mapput(ARGV[1], KEYS[2], KEYS[1], 'rev', ARGV[2], inc, { ARGV[3], ARGV[4] }), before }
