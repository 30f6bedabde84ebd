#!lua flags=allow-oom
-- After a loss of data, the executions of a node are running again. The data may know an older state of a job, or nothing.
-- Nothing happens where they know of a later one. A job that is gone is made again once for each execution, and only while
-- the lease lasts that the execution had before the loss.
-- KEYS: meta queues counts jobs bodies extras ready timers leases groups turns waiting index
-- ARGV: inc, count; then id*, record* as its execution began, body*: as the execution has left it, to make a lost job
--       again: b<bytes>, or n<length of the notes>|<notes><bytes> with notes; or ''
-- Returns: OK, the shortest lease of these jobs, a letter per job: U runs | V runs, was asked for again | Z runs, somebody
--          wants it cancelled | H halt: it was given up since, has ended, or is not there | X bad
--@base
--@counts
--@duty
--@wake
--@records
--@queues
--@groups
--@places
--@whole
local n = tonumber(argv[2])
read({ unpack(argv, 3, n + 2) })
local leases, shortest, highest = {}, 0, last
-- By id, the highest token of the executions that were heard of, and the incarnation of the last word.
local heard, heard_in, fields = {}, {}, {}
for i = 1, n do fields[i] = 'a:' .. argv[2 + i] end
fields = n > 0 and call('HMGET', EXTRAS, unpack(fields)) or {}
for i = 1, n do
  local token, inc = match(fields[i] or '', '^(%d+)|?(%d*)$')
  heard[argv[2 + i]], heard_in[argv[2 + i]] = tonumber(token) or 0, inc
end

local function number_of(prefix)
  return call('ZLEXCOUNT', INDEX, '[' .. prefix .. '|', '(' .. prefix .. '}')
end

-- A parent counts the child that it has lost. One that is not there may come back, and counts then. One that was removed takes it
-- along.
local function join(j)
  local id, birth = match(j.parent, '^(.*)#(%x+)$')
  local parent, child, taken = id and sound(id), j.parent .. '|' .. j.id, 'x:' .. j.parent
  local is_over_there = parent and (parent.birth ~= birth or is_over(parent))
  if id and call('ZSCORE', TIMERS, taken) then
    call('ZADD', INDEX, 0, 'o:' .. child)
    timers[taken] = t
    arm(t)
  elseif not id or is_over_there or call('ZSCORE', INDEX, 'c:' .. child) then
    -- Children of an ended life end.
    if is_over_there then flag(j, 'x') end
    flag(j, 'e')
  elseif call('ZADD', INDEX, 0, 'o:' .. child) == 1 and parent then
    parent.open = parent.open + 1
    flag(parent, 'c')
  end
end

-- The children of this life that the data know.
local function count_children(j)
  local of = j.id .. '#' .. j.birth
  j.open = number_of('o:' .. of)
  if j.open > 0 or number_of('c:' .. of) > 0 then flag(j, 'c') end
end

local function remake(own)
  own.flags, own.again, own.news = gsub(own.flags, '[^fopc]', ''), '', 0
  jobs[own.id] = own
  count_children(own)
  if own.parent ~= '' then join(own) end
  return own
end

-- Splits a text into data and notes.
local function left_in(text)
  if sub(text, 1, 1) == 'b' then return sub(text, 2) end
  local length = match(text, '^n(%d+)|')
  if not length then return nil end
  local first = #length + 3
  return sub(text, first + length), sub(text, first, first + length - 1)
end

-- An older state of the job gives way, also that of an earlier life.
local function adopt(j, own)
  leave(j)
  -- Notes belong to a single life of a job in a single queue.
  if j.birth ~= own.birth or j.queue ~= own.queue then forget_notes(j) end
  if j.birth ~= own.birth then
    forget_failure(j)
    if has(j, 'c') then
      timers['w:' .. j.id .. '#' .. j.birth] = t
      arm(t)
      unflag(j, 'ch')
    end
    if has(j, 'e') then
      unflag(j, 'e')
      j.parent = ''
    end
    j.birth = own.birth
    count_children(j)
  end
  j.keep, j.place, j.priority, j.max, j.due = own.keep, own.place, own.priority, own.max, own.due
  j.queue, j.group = own.queue, own.group
  j.flow, j.correlation = own.flow, own.correlation
  return j
end

local function attested(i)
  local id, body = argv[2 + i], argv[2 + 2 * n + i]
  local own, j = is_id(id) and parse(id, argv[2 + n + i]), is_id(id) and job(id)
  local data, notes = left_in(body)
  if not own or own == 'X' or own.state ~= 'R' or j == 'X' or body ~= '' and not data then return 'X' end
  local token = tonumber(own.token)
  highest = max(highest, seen_token(own.token))
  local q, before, is_first = queue_of(own.queue), heard[id], false
  if token > before or token == before and heard_in[id] ~= argv[1] then
    heard[id], heard_in[id] = token, argv[1]
    is_first = bury(id, q.lease, token)
  end
  local runs = j and j.state == 'R' and j.token == own.token
  local of_token, attempts, node = own.token, own.attempts, own.node
  if not runs then
    if j and (j.birth > own.birth or tonumber(j.token) >= token) then return 'H' end
    if not j and (body == '' or token <= before or t >= hold + q.lease) then return 'H' end
    j = j and adopt(j, own) or remake(own)
  end
  -- Data with the start of an execution may have lost a later word. The first attestation of a loss comes before all
  -- further words of the execution. A further copy may be late and know less, so a copy changes nothing.
  if data and (is_first or not runs) then
    set_body(id, data)
    if notes then set_notes(j, notes) else forget_notes(j) end
    changed[id] = j
  end
  if not runs then
    j.state, j.token, j.attempts, j.node = 'R', of_token, attempts, node
    if not in_group(q, j.group) then j.group = '' end
    changed[id] = j
    count(q.name, 'running', 1)
    if in_group(q, j.group) then
      local g = group_of(q, j.group)
      g.running = g.running + 1
    end
    tell(j)
  end
  if shortest == 0 or q.lease < shortest then shortest = q.lease end
  leases[#leases + 1] = num(t + q.lease)
  leases[#leases + 1] = id
  arm(t + q.lease)
  return has(j, 'x') and 'Z' or j.again ~= '' and 'V' or 'U'
end

local letters = {}
for i = 1, n do letters[i] = attested(i) end
flush()
if #leases > 0 then call('ZADD', LEASES, unpack(leases)) end
if highest > last then call('HSET', META, 'token', num(highest)) end
return { 'OK', num(shortest), table.concat(letters) }
