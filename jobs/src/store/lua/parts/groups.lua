-- Groups of a queue: ready|running|tag|window|used|blocked|place|paused|limit|window_ms|concurrency|weight. Its place is q
-- among those whose turn may come, b with a timer, - nowhere. The last four are '' where the queue's own count.
local groups, loaded = {}, {}

-- How many of its jobs are ready.
local function ready_in(g) return call('ZLEXCOUNT', READY, '[' .. g.key .. '|', '(' .. g.key .. '}') end

local function group_of(q, name)
  local key = q.name .. '|' .. name
  local g = groups[key]
  if g then return g end
  local text = call('HGET', GROUPS, key)
  local ready, running, tag, window, used, blocked, place, paused, limit, window_ms, concurrency, weight = match(text or '',
    '^(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|([qb-])|(p?)|(%d*)|(%d*)|(%d*)|(%d*)$')
  if ready then
    g = { ready = tonumber(ready), running = tonumber(running), tag = tonumber(tag), window = tonumber(window),
      used = tonumber(used), blocked = tonumber(blocked), place = place, paused = paused, limit = limit,
      window_ms = window_ms, concurrency = concurrency, weight = weight }
  end
  if not g or max(g.ready, g.running, g.tag, g.window, g.used, g.blocked) > 2 ^ 52 then
    g = { ready = 0, running = 0, tag = 0, window = 0, used = 0, blocked = 0, place = '-', paused = '', limit = '',
      window_ms = '', concurrency = '', weight = '', fresh = not text }
  end
  g.q, g.name, g.key, g.tag_before, g.added = q, name, key, g.tag, 0
  -- A damaged group begins anew, with all ready jobs.
  if text and g.fresh == false then g.ready = ready_in(g) end
  groups[key] = g
  loaded[#loaded + 1] = g
  return g
end

local function limit_of(g)
  local n, w = tonumber(g.limit) or g.q.group_limit, tonumber(g.window_ms) or g.q.group_window
  return w > 0 and n or 0, w
end

-- How many of its jobs may begin now, and until when none.
local function allowance_of(g)
  local n, w = limit_of(g)
  local room, till = allowance(g, n, w)
  if g.blocked > t then room, till = 0, max(till, g.blocked) end
  local concurrency = tonumber(g.concurrency) or g.q.group_concurrency
  if concurrency > 0 then room = max(0, min(room, concurrency - g.running)) end
  return room, till
end

-- The queue's virtual time: the tag of the turn that was last given.
local function turn_of(q)
  if not q.turn then q.turn = counted(redis.pcall('HGET', COUNTS, q.name .. '|turn')) end
  return q.turn
end

local function turn_member(g, tag) return fmt('%s|%014x|%s', g.q.name, tag, g.name) end

-- After all changes: each group goes where it belongs, and is forgotten when it says nothing.
local function place_groups()
  local states, forgotten, turns_off, turns_on, timers_off, timers_on = {}, {}, {}, {}, {}, {}
  for i = 1, #loaded do
    local g = loaded[i]
    local q, place, till = g.q, '-', 0
    local room, blocked_till = allowance_of(g)
    if g.ready > 0 and g.paused == '' then
      if blocked_till > t then place, till = 'b', blocked_till elseif room > 0 then place = 'q' end
    end
    local kept = g.ready > 0 or g.running > 0 or g.paused .. g.limit .. g.window_ms .. g.concurrency .. g.weight ~= ''
    if not kept then
      -- A window that is in use, or a block, is remembered until it is over.
      local n, w = limit_of(g)
      local ends = g.blocked
      if n > 0 and g.used > 0 then ends = max(ends, g.window + w) end
      if ends > t then place, till, kept = 'b', ends, true end
    end
    -- A group that was idle has saved no turns, and owes none.
    if place == 'q' and g.place ~= 'q' then g.tag = min(max(g.tag, turn_of(q)), turn_of(q) + 100) end
    local stays = place == 'q' and g.place == 'q' and g.tag == g.tag_before
    if g.place == 'q' and not stays then turns_off[#turns_off + 1] = turn_member(g, g.tag_before) end
    if place == 'q' and not stays then
      turns_on[#turns_on + 1] = 0
      turns_on[#turns_on + 1] = turn_member(g, g.tag)
    end
    if g.place == 'b' and place ~= 'b' then timers_off[#timers_off + 1] = 'g:' .. g.key end
    if place == 'b' then
      timers_on[#timers_on + 1] = num(till)
      timers_on[#timers_on + 1] = 'g:' .. g.key
      arm(till)
    end
    if place == 'q' then
      local more = min(g.place == 'q' and g.added or g.ready, room)
      q.added = q.added + more
      if q.pinned and more > 0 then q.owners[#q.owners + 1] = g.name end
    end
    g.place = place
    if kept then
      states[#states + 1] = g.key
      states[#states + 1] = table.concat({ num(g.ready), num(g.running), num(g.tag), num(g.window), num(g.used),
        num(g.blocked), place, g.paused, g.limit, g.window_ms, g.concurrency, g.weight }, '|')
    elseif not g.fresh then
      forgotten[#forgotten + 1] = g.key
    end
  end
  if #turns_off > 0 then call('ZREM', TURNS, unpack(turns_off)) end
  if #turns_on > 0 then call('ZADD', TURNS, unpack(turns_on)) end
  if #timers_off > 0 then call('ZREM', TIMERS, unpack(timers_off)) end
  if #timers_on > 0 then call('ZADD', TIMERS, unpack(timers_on)) end
  if #forgotten > 0 then call('HDEL', GROUPS, unpack(forgotten)) end
  if #states > 0 then call('HSET', GROUPS, unpack(states)) end
end

-- Wakes who waits for the jobs of a queue that became ready: of a pinned queue the owners of their groups.
local function wake_for(q)
  if not q.pinned then return wake(q.name, q.added) end
  for i = 1, #q.owners do wake(q.name .. '/' .. q.owners[i], 1) end
end

-- A pinned queue goes on: its groups whose turn it is, 4,096 at most. Later ones come when their owners look again.
local function stir_pinned(q)
  local found = call('ZRANGE', TURNS, '[' .. q.name .. '|', '(' .. q.name .. '}', 'BYLEX', 'LIMIT', 0, 4096)
  for i = 1, #found do q.owners[i] = sub(found[i], #q.name + 17) end
end

-- Whether a queue has a job that could be taken now, but for the queue's own limits.
local function has_ready(q, bound)
  if q.shut or q.paused then return false end
  local from = q.grouped and TURNS or READY
  return #call('ZRANGE', from, '[' .. q.name .. '|', bound or '(' .. q.name .. '}', 'BYLEX', 'LIMIT', 0, 1) > 0
end
