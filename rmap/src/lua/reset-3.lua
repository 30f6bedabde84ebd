-- Deletes every field.
-- KEYS, ARGV: as own.lua
-- Returns: {inc, rev, stamp} | {} without a map
if not inc then return {} end
return { put({ clear = true }) }
