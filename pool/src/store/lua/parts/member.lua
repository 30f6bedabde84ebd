-- The members of the pool.

-- An entry that no client can read, and that has no counter, is no member: nobody would ever expire it.
local function is_member(wid, entry)
  if not match(wid, '^%d+$') or #wid > 19 then return false end
  return match(entry, '^[UPG]|[%d-]+|%d+|[%w_:.-]+|[%w_:-]+|') or call('HEXISTS', HB, wid) == 1
end
