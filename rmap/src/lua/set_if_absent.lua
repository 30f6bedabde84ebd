-- Sets a field that is not there.
-- KEYS: meta hash
-- ARGV: map, channel, field, value
-- Returns: {inc, rev} when it was set | {false, false, present value}
local present = redis.call('HGET', KEYS[2], ARGV[3])
if present then return { false, false, present } end
local inc = incarnation(KEYS[1])
return { inc, mapput(ARGV[1], KEYS[2], KEYS[1], 'rev', ARGV[2], inc, { ARGV[3], ARGV[4] }) }
