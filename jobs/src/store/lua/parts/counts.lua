-- The counts of queues. An unreadable or negative count begins anew. No step fails for counts after the first write,
-- not even at a key of the wrong type.
local function add_count(field, by)
  local n = redis.pcall('HINCRBY', COUNTS, field, num(by))
  if type(n) == 'number' then
    if n < 0 then call('HSET', COUNTS, field, 0) end
  elseif sub(n.err, 1, 9) ~= 'WRONGTYPE' then
    call('HDEL', COUNTS, field)
    call('HINCRBY', COUNTS, field, num(max(by, 0)))
  end
end
