#!lua flags=allow-oom
-- Deletes the map. The next change begins another one.
-- KEYS: meta hash deadlines
-- ARGV: channel
-- Returns: whether there was a map, 0 or 1
local inc = redis.call('HGET', KEYS[1], 'inc')
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
if inc then redis.call('SPUBLISH', ARGV[1], cmsgpack.pack({ 'closed', inc })) end
return inc and 1 or 0
