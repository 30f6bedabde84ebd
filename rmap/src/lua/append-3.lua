-- Appends items to a list.
-- KEYS, ARGV: as own.lua, then field, items
-- Returns: {inc, rev, stamp, length} | NOTALIST | TOOMANY items | TOOLONG length in bytes
local list = items_of(present(ARGV[5]))
if not list then return no_list end
local length = #list
for i = 6, #ARGV do list[length + i - 5] = ARGV[i] end
return put_list(ARGV[5], list, length, length + #ARGV - 5)
