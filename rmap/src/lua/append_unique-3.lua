-- Appends the items that a list does not have yet.
-- KEYS, ARGV: as own.lua, then field, items
-- Returns: {inc, rev, stamp, how many were appended} | {} when none was | NOTALIST |
-- TOOMANY items | TOOLONG length in bytes
local list = items_of(present(ARGV[5]))
if not list then return no_list end
local length, before, known = #list, #list, {}
for i = 1, length do known[list[i]] = true end
for i = 6, #ARGV do
  if not known[ARGV[i]] then
    known[ARGV[i]], length = true, length + 1
    list[length] = ARGV[i]
  end
end
if length == before then return {} end
return put_list(ARGV[5], list, before, length - before)
