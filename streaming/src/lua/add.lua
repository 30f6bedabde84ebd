#!lua
-- Adds an entry and lets the whole stream live on for a time from now.
-- KEYS: stream
-- ARGV: time to live ms, then the rest of XADD
-- Returns: id | nil when the stream had to exist and does not
local id = redis.call('XADD', KEYS[1], unpack(ARGV, 2))
if id then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return id
