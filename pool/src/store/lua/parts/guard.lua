-- Adds to a count in `m`; one that is no number counts from nothing.
local function count(field, n)
  if type(redis.pcall('HINCRBY', M, field, n)) ~= 'number' then call('HSET', M, field, math.max(n, 0)) end
end

-- Checks the caller's incarnation, argv[1]. Returns { inc, phase, mv, cv, nq } and the fields asked for, or nil and the
-- refusal.
local function guard(recovering_too, ...)
  local head = call('HMGET', M, 'inc', 'ph', 'mv', 'cv', 'nq', ...)
  if not head[1] then return nil, { call('HEXISTS', M, 'closed') == 1 and 'CLOSED' or 'NOPOOL' } end
  if head[1] ~= argv[1] then return nil, { 'STALEINC', head[1] } end
  if head[2] == 'R' and not recovering_too then return nil, { 'RECOVERING' } end
  return head
end
