-- Sets a field that is not there.
-- KEYS, ARGV: as own.lua, then field, value
-- Returns: {inc, rev, stamp} when it was set | {false, false, false, present value}
local found = present(ARGV[5])
if found then return { false, false, false, found } end
return { put({ ARGV[5], entry(ARGV[6]) }) }
