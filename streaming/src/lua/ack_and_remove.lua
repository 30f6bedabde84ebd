#!lua flags=allow-oom
-- Acknowledges entries and deletes them.
-- KEYS: stream
-- ARGV: group, then ids
-- Returns: how many were pending in the group
local acknowledged = redis.call('XACK', KEYS[1], ARGV[1], unpack(ARGV, 2))
redis.call('XDEL', KEYS[1], unpack(ARGV, 2))
return acknowledged
