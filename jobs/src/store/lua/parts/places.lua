-- A job leaves its place and enters another. All is written at the end, by `flush`: the last word on a member counts.
local ready, timers, bodies, extras, no_extras, unleased, news, noted = {}, {}, {}, {}, {}, {}, {}, {}
-- Of fresh jobs: ids and records, and members of ready with their scores.
local fresh_records, fresh_ready = {}, {}

local function ready_member(q, j)
  return in_group(q, j.group) and q.name .. '|' .. j.group .. '|' .. j.place .. j.id or q.name .. '|' .. j.place .. j.id
end

-- Whether a bounded queue has room for one more, after all that the call has done. Jobs that were accepted go over the bound:
-- those that move on, and those that are tried again.
local function has_room(q)
  if q.capacity == 0 then return true end
  q.before = q.before or call('ZLEXCOUNT', READY, '[' .. q.name .. '|', '(' .. q.name .. '}')
    + counted(redis.pcall('HGET', COUNTS, q.name .. '|delayed'))
  return q.before + q.grown < q.capacity
end

local function leave(j)
  local state, q = j.state, queue_of(j.queue)
  if state == 'Q' or state == 'D' then q.grown = q.grown - 1 end
  if state == 'R' then
    unleased[#unleased + 1] = j.id
    count(q.name, 'running', -1)
    j.node = ''
    if in_group(q, j.group) then
      local g = group_of(q, j.group)
      g.running = max(0, g.running - 1)
    end
    if q.concurrency > 0 then q.free = q.free + 1 end
  elseif state == 'Q' then
    ready[ready_member(q, j)] = false
    if in_group(q, j.group) then
      local g = group_of(q, j.group)
      g.ready = max(0, g.ready - 1)
    end
  elseif state == 'D' then
    timers['d:' .. j.id] = false
    count(q.name, 'delayed', -1)
  elseif state == 'W' or state == 'P' then
    count(q.name, 'waiting', -1)
  else
    timers['r:' .. j.id] = false
    if state == 'F' then call('ZREM', INDEX, 'f:' .. j.queue .. '|' .. j.place .. j.id) end
  end
end

local function enter(j, state)
  local q = queue_of(j.queue)
  if state == 'Q' and j.due > t then state = 'D' end
  if (state == 'Q' or state == 'D') and has(j, 'p') then state = 'P' end
  j.state = state
  changed[j.id] = j
  if state == 'Q' or state == 'D' then q.grown = q.grown + 1 end
  if state == 'Q' then
    ready[ready_member(q, j)] = true
    if in_group(q, j.group) then
      local g = group_of(q, j.group)
      g.ready, g.added = g.ready + 1, g.added + 1
    else
      q.added = q.added + 1
    end
  elseif state == 'D' then
    timers['d:' .. j.id] = j.due
    count(q.name, 'delayed', 1)
    arm(j.due)
  elseif state == 'W' or state == 'P' then
    count(q.name, 'waiting', 1)
  end
end

local function set_body(id, body)
  bodies[#bodies + 1] = id
  bodies[#bodies + 1] = body
end

local function set_extra(field, value)
  extras[#extras + 1] = field
  extras[#extras + 1] = value
end

-- The result, or the last error, of a job.
local function set_result(j, text)
  if text == '' then return end
  set_extra('r:' .. j.id, text)
  flag(j, 'j')
end

-- The notes of handlers stand beside the data of a job, and belong to the data in a single queue.
local function set_notes(j, notes)
  noted[j.id] = notes
  flag(j, 'n')
end

local function forget_notes(j)
  if not has(j, 'n') then return end
  noted[j.id] = false
  unflag(j, 'n')
end

-- Which child of a parent has failed concerns one life of the parent, and until its end.
local function forget_failure(j)
  if not has(j, 'b') then return end
  no_extras[#no_extras + 1] = 'b:' .. j.id .. '#' .. j.birth
  unflag(j, 'b')
end

-- After a loss of data, nodes say what they run, and jobs that are gone are made again. Until when that may be.
local hold, grace = until_when(meta[3]), until_when(meta[4])

-- Executions of a job up to a token, or all of before this call, are not made again: they were, or are over. Returns whether
-- they could have been. The incarnation tells the first word of an execution after a loss.
local function bury(id, lease, of_token)
  local till = max(grace, hold + lease)
  if hold == 0 or t >= till then return false end
  set_extra('a:' .. id, num(of_token or mint()) .. '|' .. argv[1])
  timers['a:' .. id] = till
  arm(till)
  return true
end

-- A word from outside: executions that began before it do not answer for the job, also those that the data do not know.
local function outdate(j)
  j.token = num(mint())
  changed[j.id] = j
  bury(j.id, queue_of(j.queue).lease)
end

-- Watchers hear of a transition once, with its number.
local function tell(j, body, outcome, notes)
  if not has(j, 'w') then return end
  j.news = j.news + 1
  changed[j.id] = j
  news[#news + 1] = { j, cmsgpack.pack({ j.id, j.state, j.token, num(j.news), body or false, outcome or false,
    notes or false }) }
end

local function tell_all()
  for i = 1, #news do
    local j, message = news[i][1], 's|' .. news[i][2]
    local nodes, left = call('HGET', EXTRAS, 's:' .. j.id) or '', {}
    for entry, node in string.gmatch(nodes, '(([^,#]+)[^,]*)') do
      if call('SPUBLISH', CHANNEL .. node, message) > 0 then
        left[#left + 1] = entry
      else
        flag(j, 'v')
      end
    end
    -- A node that does not hear is forgotten: it asks again when it is back, and finds an end that came before.
    if #left == 0 then
      unflag(j, 'w')
      call('HDEL', EXTRAS, 's:' .. j.id)
    elseif table.concat(left, ',') ~= nodes then
      call('HSET', EXTRAS, 's:' .. j.id, table.concat(left, ','))
    end
  end
end

-- Writes the words of a sorted set: those with a score are added, the others removed.
local function write_members(key, words)
  local off, on = {}, {}
  for member, word in pairs(words) do
    if not word then
      off[#off + 1] = member
    else
      on[#on + 1] = word == true and 0 or num(word)
      on[#on + 1] = member
    end
  end
  if #off > 0 then call('ZREM', key, unpack(off)) end
  if #on > 0 then call('ZADD', key, unpack(on)) end
end

local function flush()
  tell_all()
  local records, gone = fresh_records, {}
  for id, j in pairs(changed) do
    if not dropped[id] then
      records[#records + 1] = id
      records[#records + 1] = pack(j)
    end
  end
  for id in pairs(dropped) do gone[#gone + 1] = id end
  if #fresh_ready > 0 then call('ZADD', READY, unpack(fresh_ready)) end
  write_members(READY, ready)
  write_members(TIMERS, timers)
  if #unleased > 0 then call('ZREM', LEASES, unpack(unleased)) end
  if #records > 0 then call('HSET', JOBS, unpack(records)) end
  if #bodies > 0 then call('HSET', BODIES, unpack(bodies)) end
  for id, notes in pairs(noted) do
    if notes then set_extra('n:' .. id, notes) else no_extras[#no_extras + 1] = 'n:' .. id end
  end
  if #extras > 0 then call('HSET', EXTRAS, unpack(extras)) end
  if #no_extras > 0 then call('HDEL', EXTRAS, unpack(no_extras)) end
  if #gone > 0 then
    call('HDEL', JOBS, unpack(gone))
    call('HDEL', BODIES, unpack(gone))
  end
  place_groups()
  for field, by in pairs(counts) do
    if by ~= 0 then add_count(field, by) end
  end
  for _, q in pairs(queues) do
    if q.free > q.added and has_ready(q) then q.added = q.free end
    if q.added > 0 and not q.paused and not q.shut then wake_for(q) end
  end
  tell_duty()
end
