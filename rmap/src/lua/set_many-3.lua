-- Sets fields in one revision.
-- KEYS, ARGV: as own.lua, then (field, value)*, each field once
-- Returns: {inc, rev, stamp}
local changes = {}
for i = 5, #ARGV, 2 do changes[i - 4], changes[i - 3] = ARGV[i], entry(ARGV[i + 1]) end
return { put(changes) }
