-- Sets fields in one revision.
-- KEYS, ARGV: as own.lua, then (field, value)*, each field once, up to 1,000
-- Returns: {inc, rev, stamp, (previous value or false)*}
local changes, fields = {}, {}
for i = 5, #ARGV, 2 do
  changes[i - 4], changes[i - 3], fields[(i - 3) / 2] = ARGV[i], entry(ARGV[i + 1]), ARGV[i]
end
local before = all_present(fields)
local inc, rev, stamp = put(changes)
return { inc, rev, stamp, unpack(before) }
