-- Deletes every field, and tells all replicas to read again.
-- KEYS: meta hash
-- ARGV: channel
-- Returns: {inc, rev}
local inc = incarnation(KEYS[1])
local rev = string.format('%.0f', redis.call('HINCRBY', KEYS[1], 'rev', 1))
redis.call('DEL', KEYS[2])
redis.call('SPUBLISH', ARGV[1], cmsgpack.pack({ '*', inc }))
return { inc, rev }
