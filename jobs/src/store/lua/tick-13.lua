#!lua flags=allow-oom
-- Does what is due: leases that are over, delays, limits, deadlines, retention, the children of parents that have ended or
-- were removed, and wake-ups that were lost with their node. One node is on duty. When it is late, another one takes over.
-- KEYS: meta queues counts jobs bodies extras ready timers leases groups turns waiting index
-- ARGV: inc, node, most of a kind, the longest pause to the next tick (ms), the longest grace (ms), 1 to tick also off duty or ''
-- Returns: OK, ms to the next tick, leases lost, jobs that became ready, jobs forgotten, removed or past their deadline |
--          DUTY, ms until another node may take over
--@base
--@counts
--@duty
--@wake
--@records
--@queues
--@groups
--@places
--@ends
--@mends
--@whole
local node, most, pause = argv[2], tonumber(argv[3]), tonumber(argv[4])
if not is_name(node) then return { 'BADARG' } end
local ticks = call('HMGET', META, 'ticked', 'woken', 'spared', 'looks', 'mended')
local armed, ticked = counted(meta[5]), counted(ticks[1])
if argv[6] == '' and meta[6] and meta[6] ~= '' and meta[6] ~= node and t < armed + 250 and armed < t + 60000 then
  return { 'DUTY', num(armed + 250 - t) }
end
-- A gap between two ticks: Redis was away, or its clock jumped. For as long again no lease is taken, so that nodes can say
-- what they run and what has ended. Where ticks are always late, leases are taken after eight such gaps.
local grace, spared, gap = until_when(meta[4]), counted(ticks[3]), t - ticked
if gap > pause + 1000 and spared < 8 then
  grace = max(grace, t + min(gap, tonumber(argv[5])))
  call('HSET', META, 'grace', num(grace), 'spared', spared + 1)
elseif gap < -7000 then
  grace = t + argv[5]
  call('HSET', META, 'grace', num(grace))
elseif t >= grace and spared > 0 then
  call('HDEL', META, 'spared')
end
local lost, promoted, gone, more = 0, 0, 0, false

-- A job without an execution loses its lease. A record that cannot be read may still name the queue and the group in which it has
-- a slot. It gives that up once: nobody runs it from now on.
local function drop_lease(id)
  local of_token, rest = match(job(id) == 'X' and call('HGET', JOBS, id) or '', '^1|R|(%d+)(|.*)$')
  local runner, queue, group = match(rest or '', '^|%d+|([^|]*)|%d*|%a*|[^|]*|%d+|%-?%d+|([^|]+)|([^|]*)|')
  if not queue then
    call('ZREM', LEASES, id)
    return
  end
  call('SPUBLISH', CHANNEL .. runner, 'h|' .. id .. '|' .. of_token)
  call('HSET', JOBS, id, '1|Q|' .. of_token .. rest)
  leave({ id = id, state = 'R', queue = queue, group = group })
end

if t >= grace then
  local due = call('ZRANGE', LEASES, '-inf', num(t), 'BYSCORE', 'LIMIT', 0, most)
  more = #due == most
  read(due)
  for i = 1, #due do
    local j = sound(due[i])
    if j and j.state == 'R' then
      call('SPUBLISH', CHANNEL .. j.node, 'h|' .. j.id .. '|' .. j.token)
      retry(j, 0, 'lease expired')
      lost = lost + 1
    else
      drop_lease(due[i])
    end
  end
end

local function expire(id, member)
  local j = sound(id)
  if not j then
    call('ZREM', TIMERS, member)
    return
  end
  gone = gone + 1
  if is_over(j) then
    leave(j)
    if has(j, 'w') then
      j.state = '-'
      tell(j)
    end
    drop(j)
  elseif has(j, 'd') then
    if j.state == 'R' then call('SPUBLISH', CHANNEL .. j.node, 'h|' .. j.id .. '|' .. j.token) end
    j.again = ''
    leave(j)
    finish(j, 'F', has(j, 'o') and 'never closed' or 'deadline')
  else
    call('ZREM', TIMERS, member)
  end
end

-- Children that this tick may still clear, of all parents.
local children = most
local function clear_children(of, member)
  local parent = parent_of(of)
  if parent and not is_over(parent) then
    timers[member] = false
    return
  end
  if children > 0 then children = children - abandon(of, children) end
  if children > 0 and not parent then children = children - forget(of, children) end
  if children <= 0 then
    more = true
    return
  end
  timers[member] = false
  if parent then
    parent.open = 0
    changed[parent.id] = parent
  end
end

-- The children of a parent that was removed go with it: those that wait, that run and that have ended. While its executions may
-- not be made again, its children still may come.
local function remove_children(of, member)
  for _, kind in ipairs({ 'o:', 'c:' }) do
    local from, till = '[' .. kind .. of .. '|', '(' .. kind .. of .. '}'
    local members = children > 0 and call('ZRANGE', INDEX, from, till, 'BYLEX', 'LIMIT', 0, children) or {}
    for i = 1, #members do
      local j = sound(sub(members[i], #of + 4))
      call('ZREM', INDEX, members[i])
      -- By now it may be another parent's, or nobody's.
      if j and j.parent == of then
        remove(j)
        gone = gone + 1
      end
    end
    if #members > 0 then call('HDEL', EXTRAS, unpack(members)) end
    children = children - #members
  end
  if children > 0 then
    timers[member] = tonumber(call('ZSCORE', TIMERS, 'a:' .. match(of, '^[^#]*'))) or false
  else
    more = true
  end
end

local due = call('ZRANGE', TIMERS, '-inf', num(t), 'BYSCORE', 'LIMIT', 0, most)
more = more or #due == most
for i = 1, #due do
  local kind, of = sub(due[i], 1, 1), sub(due[i], 3)
  if timers[due[i]] ~= nil then
    -- The last word on it was said a moment ago, in this tick.
  elseif kind == 'd' then
    local j = sound(of)
    if not j or j.state ~= 'D' then
      call('ZREM', TIMERS, due[i])
    elseif j.due <= t then
      leave(j)
      enter(j, 'Q')
      promoted = promoted + 1
    else
      timers[due[i]] = j.due
    end
  elseif kind == 'g' then
    local queue, group = match(of, '^([^|]+)|(.*)$')
    if queue then
      local g = group_of(queue_of(queue), group)
      if g.place ~= 'b' then call('ZREM', TIMERS, due[i]) end
    else
      call('ZREM', TIMERS, due[i])
      queue_of(of).free = queue_of(of).free + 8
    end
  elseif kind == 'r' then
    expire(of, due[i])
  elseif kind == 'w' then
    clear_children(of, due[i])
  elseif kind == 'x' then
    remove_children(of, due[i])
  elseif kind == 'a' then
    no_extras[#no_extras + 1] = 'a:' .. of
    call('ZREM', TIMERS, due[i])
  else
    call('ZREM', TIMERS, due[i])
  end
end

-- A member with a score hides other members from every look by name.
if is_nth(1000, ticked) then
  for _, key in ipairs({ READY, TURNS, WAITING, INDEX }) do
    for _, range in ipairs({ { '-inf', '(0' }, { '(0', '+inf' } }) do
      local found = redis.pcall('ZRANGE', key, range[1], range[2], 'BYSCORE', 'LIMIT', 0, most)
      for i = 1, #found do call('ZADD', key, 0, found[i]) end
    end
  end
end

-- A wake-up may have been lost with the node that it was for. The next tick goes on where this one ends, and comes at once.
-- Once in 10 s a tick begins with the first queue, and looks for damage, too. So do the following ticks while queues are
-- left.
local from_first = is_nth(10000, ticked)
local at, left = from_first and '' or ticks[2] or '', 64
local began, looks = at, from_first or at ~= '' and ticks[4] == '1'
while true do
  local from = at == '' and '-' or '[' .. at
  local member = redis.pcall('ZRANGE', WAITING, from, '+', 'BYLEX', 'LIMIT', 0, 1)[1]
  if not member then
    at = ''
    break
  end
  local name, mark = match(member, '^([^|/]+)([|/]?)')
  if left == 0 then
    more = true
    break
  end
  left = left - 1
  if not name then
    call('ZREM', WAITING, member)
  elseif mark == '/' then
    -- The owners of groups of a pinned queue are passed over: the next owner looks by itself. A 0 follows the slash, and
    -- queues whose names begin with this one stand behind it.
    if looks then doubt(queue_of(name)) end
    at = name .. '0'
  else
    local q = queue_of(name)
    q.free = q.free + 1
    if looks then doubt(q) end
    at = name .. '}'
  end
end
earliest = nil
flush()
if looks then mend(ticks[5] or '', began, at == '') end
-- Nodes that do not hear have used up its patience: the next one begins with the first queue.
if earliest and earliest <= t then more, at = true, '' end
if at ~= '' then
  call('HSET', META, 'woken', at, 'looks', looks and 1 or 0)
elseif ticks[2] then
  call('HDEL', META, 'woken', 'looks')
end

local next_ = t + pause
if more then
  next_ = t
else
  local first = call('ZRANGE', TIMERS, 0, 0, 'WITHSCORES')[2]
  if first then next_ = min(next_, max(t + 1, tonumber(first))) end
  first = call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')[2]
  if first then next_ = min(next_, max(t + 1, grace, tonumber(first))) end
end
call('HSET', META, 'armed', num(next_), 'duty', node, 'ticked', num(t))
return { 'OK', num(next_ - t), lost, promoted, gone }
