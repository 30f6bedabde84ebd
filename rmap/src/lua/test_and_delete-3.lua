-- Deletes a field that has the expected value.
-- KEYS, ARGV: as own.lua, then field, expected value
-- Returns: {inc, rev, stamp} when it was deleted | {false, false, false, present value or false}
local found = present(ARGV[5])
if found ~= ARGV[6] then return { false, false, false, found } end
return { put({ ARGV[5], false }) }
