-- Damage to counts and groups. Nodes wait for the jobs of a queue: the queue has none, or the data about the queue are
-- wrong. Damage is rare, so a look comes every 10 s. Sound data are left as they are.

-- Whether no tick has come in the span of `ms` yet.
local function is_nth(ms, ticked) return floor(t / ms) ~= floor(ticked / ms) end

local function count_of(name, of) return counted(redis.pcall('HGET', COUNTS, name .. '|' .. of)) end

-- Queues that may be full for nothing, by name, with the running and delayed jobs counted so far; and the names of
-- queues with groups.
local full, bounded, with_groups = {}, {}, {}

local function doubt(q)
  local name = q.name
  if q.grouped and with_groups[#with_groups] ~= name then with_groups[#with_groups + 1] = name end
  if q.concurrency > 0 and count_of(name, 'running') >= q.concurrency then full[name] = 0 end
  if q.capacity > 0 and count_of(name, 'delayed') > 0 then bounded[name] = 0 end
end

-- Counts the jobs in a state, by queue and by group, from a sorted set of no more than 8,192 members. Returns whether
-- it has.
local function count_members(key, prefix, state, by_queue, by_group)
  if not next(by_queue) and not next(by_group) then return false end
  local ids, members = {}, call('ZRANGE', key, 0, 8192)
  if #members > 8192 then return false end
  for i = 1, #members do
    if sub(members[i], 1, #prefix) == prefix then ids[#ids + 1] = sub(members[i], #prefix + 1) end
  end
  for from = 1, #ids, 1000 do
    local found = call('HMGET', JOBS, unpack(ids, from, min(from + 999, #ids)))
    for i = 1, #found do
      local is, queue, group = match(found[i] or '', '^1|(%u)|%d+|%d+|[^|]*|%d*|%a*|[^|]*|%d+|%-?%d+|([^|]+)|([^|]*)|')
      if is == state then
        local of = queue .. '|' .. group
        if by_queue[queue] then by_queue[queue] = by_queue[queue] + 1 end
        if by_group[of] then by_group[of] = by_group[of] + 1 end
      end
    end
  end
  return true
end

local function write_counts(by_queue, of)
  for name, n in pairs(by_queue) do
    if n ~= count_of(name, of) then redis.pcall('HSET', COUNTS, name .. '|' .. of, n) end
  end
end

-- Whether a group with ready jobs stands in a wrong place.
local function is_astray(g)
  if g.place == 'q' then return not call('ZSCORE', TURNS, turn_member(g, g.tag)) end
  if g.place == 'b' then return not call('ZSCORE', TIMERS, 'g:' .. g.key) end
  local room, till = allowance_of(g)
  return g.paused == '' and (room > 0 or till > t)
end

-- Groups that are full by their counts of running jobs, and the mended groups.
local crowded, crowded_groups, mended = {}, {}, {}

local function put_right(g)
  if not g.mended then mended[#mended + 1], g.mended = g, true end
end

local function look_at(g)
  local limit = tonumber(g.concurrency) or g.q.group_concurrency
  if limit > 0 and g.running >= limit then crowded[g.key], crowded_groups[#crowded_groups + 1] = 0, g end
  if not is_astray(g) then return end
  g.ready, g.place = ready_in(g), '-'
  put_right(g)
end

-- Looks at 64 groups with ready jobs, from where the last look has ended. Returns where this look ends. Queues come in the
-- order of their names, and a tick sees a part of the queues, behind `began`. Groups before that wait for an earlier tick.
local function look_at_groups(from, began, is_last)
  if from ~= '' and from < began then return from end
  local left, first = 64, 1
  while with_groups[first] and with_groups[first] .. '}' <= from do first = first + 1 end
  for i = first, #with_groups do
    local name = with_groups[i]
    local q, at = queue_of(name), from > name .. '|' and from or name .. '|'
    while true do
      local member = call('ZRANGE', READY, '[' .. at, '(' .. name .. '}', 'BYLEX', 'LIMIT', 0, 1)[1]
      if not member then break end
      if left == 0 then return at end
      left = left - 1
      local group = match(member, '^[^|]*|([^|]*)|')
      at = group and name .. '|' .. group .. '}' or member .. '\0'
      if group then look_at(group_of(q, group)) end
    end
  end
  return (with_groups[first] or is_last) and '' or from
end

-- Mends all doubted counts, after the rest of the call's changes.
local function mend(from, began, is_last)
  groups = {}
  for i = 1, #with_groups do
    local q = queue_of(with_groups[i])
    q.added, q.owners = 0, q.pinned and {}
  end
  local at = look_at_groups(from, began, is_last)
  if at ~= '' then call('HSET', META, 'mended', at) elseif from ~= '' then call('HDEL', META, 'mended') end
  if count_members(LEASES, '', 'R', full, crowded) then
    write_counts(full, 'running')
    for i = 1, #crowded_groups do
      local g = crowded_groups[i]
      if g.running ~= crowded[g.key] then
        g.running = crowded[g.key]
        put_right(g)
      end
    end
  end
  if count_members(TIMERS, 'd:', 'D', bounded, {}) then write_counts(bounded, 'delayed') end
  -- Sound groups are not written.
  loaded = mended
  place_groups()
  for i = 1, #with_groups do
    local q = queue_of(with_groups[i])
    if q.added > 0 and not q.paused and not q.shut then wake_for(q) end
  end
end
