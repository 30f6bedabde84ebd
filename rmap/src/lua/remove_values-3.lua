-- Removes items from a list, wherever they are in it. A list that becomes empty is deleted.
-- KEYS, ARGV: as own.lua, then field, items
-- Returns: {inc, rev, stamp, how many were removed} | {} when none was | NOTALIST
local list = items_of(present(ARGV[5]))
if not list then return no_list end
local unwanted, kept, length = {}, {}, 0
for i = 6, #ARGV do unwanted[ARGV[i]] = true end
for _, item in ipairs(list) do
  if not unwanted[item] then
    length = length + 1
    kept[length] = item
  end
end
if length == #list then return {} end
return put_list(ARGV[5], kept, #list, #list - length)
