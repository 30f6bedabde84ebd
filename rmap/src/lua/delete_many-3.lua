-- Deletes fields in one revision.
-- KEYS, ARGV: as own.lua, then fields, each once
-- Returns: {inc, rev, stamp, how many were there} | {} when none was
local changes, size = {}, 0
for i = 5, #ARGV do
  if present(ARGV[i]) then
    changes[size + 1], changes[size + 2], size = ARGV[i], false, size + 2
  end
end
if size == 0 then return {} end
local inc, rev, stamp = put(changes)
return { inc, rev, stamp, size / 2 }
