-- Sets a field that has a certain value.
-- KEYS: meta hash
-- ARGV: map, channel, field, value, value that it must have
-- Returns: {inc, rev} when it was set | {false, false, present value or false}
local present = redis.call('HGET', KEYS[2], ARGV[3])
if present ~= ARGV[5] then return { false, false, present } end
local inc = incarnation(KEYS[1])
return { inc, mapput(ARGV[1], KEYS[2], KEYS[1], 'rev', ARGV[2], inc, { ARGV[3], ARGV[4] }) }
