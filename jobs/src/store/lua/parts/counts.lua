-- The counts of queues. One that cannot be read, or would be negative, begins anew. No step fails for them after its first
-- write, also where their key is of another type.
local function add_count(field, by)
  local n = redis.pcall('HINCRBY', COUNTS, field, num(by))
  if type(n) == 'number' then
    if n < 0 then call('HSET', COUNTS, field, 0) end
  elseif sub(n.err, 1, 9) ~= 'WRONGTYPE' then
    call('HDEL', COUNTS, field)
    call('HINCRBY', COUNTS, field, num(max(by, 0)))
  end
end
