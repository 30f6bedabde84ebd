-- Adds to a count in `pool`; one that is no number counts from nothing.
local function count(field, n)
  if type(redis.pcall('HINCRBY', POOL, field, n)) ~= 'number' then call('HSET', POOL, field, math.max(n, 0)) end
end

-- Checks the caller's incarnation, argv[1]. Returns { incarnation, phase, workers_revision, settings_revision, queued }
-- and the fields asked for, or nil and the refusal.
local function guard(recovering_too, ...)
  local head = call('HMGET', POOL, 'incarnation', 'phase', 'workers_revision', 'settings_revision', 'queued', ...)
  if not head[1] then return nil, { call('HEXISTS', POOL, 'closed') == 1 and 'CLOSED' or 'NOPOOL' } end
  if head[1] ~= argv[1] then return nil, { 'STALEINC', head[1] } end
  if head[2] == 'R' and not recovering_too then return nil, { 'RECOVERING' } end
  return head
end
