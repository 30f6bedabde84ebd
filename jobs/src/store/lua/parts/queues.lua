-- Queues: flags|lease|terms|max|keep_failed|keep|capacity|step|concurrency|limit|window|group_limit|group_window|
-- group_concurrency and a tail that is kept. Nodes get the terms with the jobs, and no script reads the terms. Flags:
-- "-" none, g the jobs have groups that take turns, o only the owner of a group takes jobs, p paused, z cleared:
-- nothing goes in or out. An undeclared queue is like a cleared queue.
local queues, counts = {}, {}

local function queue_of(name)
  local q = queues[name]
  if q then return q end
  local text = call('HGET', QUEUES, name) or ''
  local flags, lease, terms, most, keep_failed, keep, capacity, step, concurrency, limit, window, group_limit, group_window,
    group_concurrency = match(text, '^([gopz-]+)|(%d+)|([^|]*)|(%d+)|(%-?%d+)|(%-?%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)')
  if flags then
    q = { name = name, known = true, shut = find(flags, 'z', 1, true) ~= nil, grouped = find(flags, 'g', 1, true) ~= nil,
      pinned = find(flags, 'o', 1, true) ~= nil, paused = find(flags, 'p', 1, true) ~= nil, lease = tonumber(lease),
      terms = terms, max = tonumber(most), keep_failed = tonumber(keep_failed), keep = tonumber(keep),
      capacity = tonumber(capacity), step = tonumber(step), concurrency = tonumber(concurrency),
      limit = tonumber(limit), window = tonumber(window),
      group_limit = tonumber(group_limit), group_window = tonumber(group_window),
      group_concurrency = tonumber(group_concurrency) }
  else
    q = { name = name, shut = true, pinned = false, lease = 30000, terms = '', max = 0, keep_failed = -1, keep = 0,
      capacity = 0, step = 60000, concurrency = 0, limit = 0, window = 0, group_limit = 0, group_window = 0,
      group_concurrency = 0 }
  end
  -- Slots that are free again, jobs that became ready, and their groups in a pinned queue: whom the call has to wake.
  q.free, q.added, q.owners = 0, 0, q.pinned and {}
  -- How many more are ready or delayed than before the call.
  q.grown = 0
  queues[name] = q
  return q
end

-- A queue that was named, and not declared, by any node so far.
local function is_named(q) return find(call('HGET', QUEUES, q.name) or '', '|named$') ~= nil end

-- Whether a job takes turns with others of its group. Where settings are lost, the job's record says so.
local function in_group(q, group) return q.grouped or not q.known and group ~= '' end

local function count(queue, of, by)
  local field = queue .. '|' .. of
  counts[field] = (counts[field] or 0) + by
end

-- Of a limit of n in each window of w ms: how many more may begin now, and until when none. `s` has `window` and `used`.
local function allowance(s, n, w)
  if n == 0 then return 1e9, 0 end
  local begins = floor(t / w) * w
  if s.window ~= begins then s.window, s.used = begins, 0 end
  if s.used >= n then return 0, begins + w end
  return n - s.used, 0
end
