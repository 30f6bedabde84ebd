-- Deletes a field.
-- KEYS, ARGV: as own.lua, then field
-- Returns: {inc, rev, stamp, previous value} when it was there | {}
local before = present(ARGV[5])
if not before then return {} end
local inc, rev, stamp = put({ ARGV[5], false })
return { inc, rev, stamp, before }
