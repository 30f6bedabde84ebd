#!lua flags=no-writes
-- A page of the pool's history.
-- KEYS: pool history
-- ARGV: the entry after which the page begins, limit
-- Returns: OK, the oldest entry's id or '', {id, entry or '', ..}. NOPOOL | CLOSED
--@base
if call('HEXISTS', POOL, 'incarnation') == 0 then return { call('HEXISTS', POOL, 'closed') == 1 and 'CLOSED' or 'NOPOOL' } end

-- A key of another type counts as empty.
local function entries(from, limit)
  local found = redis.pcall('XRANGE', HISTORY, from, '+', 'COUNT', limit)
  return found.err and {} or found
end

local oldest, page = entries('-', 1)[1], {}
for _, entry in ipairs(entries('(' .. argv[1], math.max(1, tonumber(argv[2])))) do
  local fields = entry[2]
  page[#page + 1] = entry[1]
  page[#page + 1] = fields[1] == 'e' and fields[2] or ''
end
return { 'OK', oldest and oldest[1] or '', page }
