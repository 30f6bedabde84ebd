-- Sets a field.
-- KEYS, ARGV: as own.lua, then field, value
-- Returns: {inc, rev, stamp, previous value or false}
local before = present(ARGV[5])
local inc, rev, stamp = put({ ARGV[5], entry(ARGV[6]) })
return { inc, rev, stamp, before }
