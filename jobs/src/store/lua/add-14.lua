#!lua
-- Jobs come in, each with what belongs to it. A child is added by the execution of its parent, while its parent is open,
-- or together with it. A parent of this call waits for its children.
-- KEYS: meta queues counts jobs bodies extras ready timers leases groups turns waiting index lane
-- ARGV: inc, number, mode, token of the parent that adds or '', count of kinds, kind*, count of look-ups,
--       (item, attribute=value)*, a byte per job: its kind. Then id*, body*.
--       Mode k keeps a job that is there. Mode r replaces one that waits. Mode a runs it again, also after its end and
--       while it runs. A flow that has ended begins again with its first stage. Mode s does as a, and writes nothing for the same time. Mode e does as s, but only with a job that
--       is there, which keeps its data if these are empty.
--       A kind: keep or '' as the queue|queue|group|priority|max|due|flow|parent|flags|deadline, and |correlation if it
--       has one. Due and deadline are moments in ms. A plus before a moment: so many ms after this call. Flags: f it fails with its first child,
--       o open: more children may come, W it waits for its children
-- Returns: OK, a letter per job: A added | E exists | S the same | U changed | R it runs, and runs again | N anew |
--          B its queue is full | M there is none, and mode e | P no such queue, or a job with a group for a queue that
--          was only named | G its queue is pinned, and it has no group |
--          H no such parent, or not the caller's | X bad; or NOTOKENS
--@base
--@lane
--@counts
--@duty
--@wake
if last >= LAST_TOKEN then return { 'NOTOKENS' } end
local mode, token = argv[3], argv[4]
local of_kinds = 5
local of_lookups = of_kinds + argv[of_kinds] + 1
local base = of_lookups + 2 * argv[of_lookups] + 1
local kind_of, n = argv[base], (#argv - base) / 2

-- Most calls bring new jobs of one kind that wait for nothing, to a queue without groups and a bound. They need none of the
-- rest, which costs more than they do.
local keep, queue, priority, most, due, flow = match(argv[of_kinds + 1] or '',
  '^(%-?%d*)|([^|]+)||(%-?%d)|(%d+)|(%d+)|([^|]*)|||0$')
if mode == 'k' and keep and argv[of_kinds] == '1' and argv[of_lookups] == '0' and kind_of == string.rep('\1', n)
  and (keep == '' or (tonumber(keep) or 2 ^ 43) < 2 ^ 43) and tonumber(due) <= t then
  local kept, step = match(call('HGET', QUEUES, queue) or '', '^%-|%d+|[^|]*|%d+|%-?%d+|(%-?%d+)|0|(%d+)|')
  if keep == '' then keep = kept end
  local there, seen = step and call('HMGET', JOBS, unpack(argv, base + 1, base + n)), {}
  for i = 1, n do
    local id = argv[base + i]
    if not there or there[i] or seen[id] or not is_id(id) then
      there = nil
      break
    end
    seen[id] = true
  end
  if there then
    local line = fmt('%011x%03x', max(min((tonumber(due) > 0 and due or t) - priority * step, 2 ^ 43), 0), mint() % 4096)
    local birth = fmt('%011x%03x', floor(mint() / 4096) + 1735689600000, mint() % 4096)
    local head, tail = '1|Q|0|0|||||0|' .. keep .. '|' .. queue .. '||' .. line, '|0|' .. flow
    local middle = '|' .. priority .. '|' .. most .. '|' .. num(tonumber(due)) .. '|' .. birth
    local ready, records, bodies = {}, {}, {}
    for i = 1, n do
      local id, nth, k = argv[base + i], fmt('%03d', i - 1), 2 * i
      ready[k - 1], ready[k] = 0, queue .. '|' .. line .. nth .. id
      records[k - 1], records[k] = id, head .. nth .. middle .. nth .. tail
      bodies[k - 1], bodies[k] = id, argv[base + n + i]
    end
    -- First the keys that were not read: a key of the wrong type stops the call before any write.
    call('ZSCORE', READY, '')
    call('HSET', BODIES, unpack(bodies))
    call('ZADD', READY, unpack(ready))
    call('HSET', JOBS, unpack(records))
    wake(queue, n)
    tell_duty()
    local letters = string.rep('A', n)
    call('SET', LANE, argv[2] .. '|' .. letters, 'PX', 3600000)
    return { 'OK', letters }
  end
end
--@records
--@queues
--@groups
--@places
--@ends
--@whole
local kinds, waits = {}, {}
local function moment(text) return byte(text) == 43 and t + sub(text, 2) or tonumber(text) end
for i = 1, tonumber(argv[of_kinds]) do
  local keep, queue, group, priority, most, due, flow, parent, flags, deadline, correlation = match(argv[of_kinds + i],
    '^(%-?%d*)|([^|]+)|([%w_:.~%%@/-]*)|(%-?%d)|(%d+)|(%+?%d+)|([^|]*)|([^|]*)|([foW]*)|(%+?%d+)|?([^|]*)$')
  due, deadline = moment(due or ''), moment(deadline or '')
  if keep and due < 2 ^ 43 and deadline < 2 ^ 43 and (keep == '' or (tonumber(keep) or 2 ^ 43) < 2 ^ 43) then
    local q = queue_of(queue)
    local kept = gsub(flags, 'W', '') .. (deadline > 0 and 'd' or '')
    local is_plain = parent == '' and flags == '' and due <= t
    kinds[i] = { q = q, keep = keep == '' and num(q.keep) or keep, group = q.grouped and group or '',
      is_early = group ~= '' and not q.grouped and is_named(q), priority = tonumber(priority), max = most,
      due = due, flow = flow, correlation = correlation, parent = parent, flags = kept, deadline = deadline,
      waits = find(flags, 'W', 1, true) ~= nil, is_plain = is_plain }
  end
end
read({ unpack(argv, base + 1, base + n) })

local function in_line(q, due, priority) return (due > 0 and due or t) - priority * q.step end

-- Whether this call may add a child to a parent.
local function takes(parent)
  if not parent then return false end
  if token ~= '' then return parent.state == 'R' and parent.token == token end
  return parent.state == 'W' and (has(parent, 'o') or waits[parent.id] ~= nil)
end

-- A job of the call is in line, or waits for its children. Until they are known it takes room as if it were in line.
local function begin(j, kind)
  if not kind.waits then return enter(j, 'Q') end
  waits[j.id], kind.q.grown = j, kind.q.grown + 1
  enter(j, 'W')
end

local function make(id, body, kind, parent, item)
  local q = kind.q
  local j = { id = id, state = 'Q', token = '0', attempts = 0, node = '', again = '', flags = kind.flags,
    parent = parent and parent.id .. '#' .. parent.birth or '', open = 0, keep = tonumber(kind.keep), queue = q.name,
    group = kind.group, place = place_at(in_line(q, kind.due, kind.priority), item), priority = kind.priority,
    max = tonumber(kind.max), due = kind.due, birth = birth_at(item), news = 0, flow = kind.flow,
    correlation = kind.correlation, tail = '' }
  jobs[id] = j
  set_body(id, body)
  if parent then
    parent.open = parent.open + 1
    flag(parent, 'c')
    call('ZADD', INDEX, 0, 'o:' .. j.parent .. '|' .. id)
  end
  if kind.deadline > 0 then
    timers['r:' .. id] = kind.deadline
    arm(kind.deadline)
  end
  begin(j, kind)
end

-- The same for a job that needs nothing but its place, and perhaps a deadline.
local function make_plain(id, body, kind, item)
  local q, nth = kind.q, fmt('%03d', item)
  if not kind.line then
    kind.line = sub(place_at(in_line(q, kind.due, kind.priority), 0), 1, 14)
    kind.head = '1|Q|0|0|||' .. kind.flags .. '||0|' .. kind.keep .. '|' .. q.name .. '|' .. kind.group .. '|' .. kind.line
    kind.middle = '|' .. kind.priority .. '|' .. kind.max .. '|' .. num(kind.due) .. '|' .. sub(birth_at(0), 1, 14)
    kind.tail = '|0|' .. kind.flow .. (kind.correlation ~= '' and '|' .. kind.correlation or '')
    kind.member = q.name .. '|' .. (q.grouped and kind.group .. '|' or '') .. kind.line
    kind.stir = q.grouped and group_of(q, kind.group) or q
  end
  local record, k = kind.head .. nth .. kind.middle .. nth .. kind.tail, #fresh_records
  fresh[id], jobs[id] = record, nil
  fresh_records[k + 1], fresh_records[k + 2] = id, record
  fresh_ready[k + 1], fresh_ready[k + 2] = 0, kind.member .. nth .. id
  q.grown = q.grown + 1
  bodies[#bodies + 1], bodies[#bodies + 2] = id, body
  if q.grouped then kind.stir.ready = kind.stir.ready + 1 end
  kind.stir.added = kind.stir.added + 1
  if kind.deadline > 0 then
    timers['r:' .. id] = kind.deadline
    arm(kind.deadline)
  end
end

-- The deadline of its former life is none of it.
local function set_deadline(j, kind)
  if kind.deadline > 0 then
    flag(j, 'd')
    timers['r:' .. j.id] = kind.deadline
    arm(kind.deadline)
  elseif has(j, 'd') then
    unflag(j, 'd')
    timers['r:' .. j.id] = false
  end
end

-- A job that is there, and was asked for again.
local function again(j, body, kind, item)
  local waiting = j.state == 'Q' or j.state == 'D' or j.state == 'P'
  if waiting and j.due == kind.due then
    if mode == 's' or mode == 'e' then
      -- An execution of the lost time does not answer for it.
      if t < grace then outdate(j) end
      return 'S'
    end
    -- It keeps its place.
    j.correlation = kind.correlation
    set_body(j.id, body)
    forget_notes(j)
    outdate(j)
    tell(j, body)
    return 'U'
  end
  if j.state == 'R' or j.state == 'W' then
    if mode == 'r' then return 'E' end
    j.again = num(kind.due)
    changed[j.id] = j
    return 'R'
  end
  if not waiting and mode == 'r' then return 'E' end
  leave(j)
  if waiting then
    outdate(j)
  else
    renew_life(j)
    j.attempts = 0
    set_deadline(j, kind)
    if kind.flow ~= '' then
      -- It begins with the first stage.
      j.queue, j.group, j.priority, j.keep = kind.q.name, kind.group, kind.priority, tonumber(kind.keep)
      j.flow = kind.flow
    end
  end
  j.due, j.place = kind.due, place_at(in_line(kind.q, kind.due, j.priority), item)
  local data = (mode ~= 'e' or body ~= '') and body or nil
  if data or not waiting then forget_notes(j) end
  if data then
    j.correlation = kind.correlation
    set_body(j.id, data)
  end
  enter(j, 'Q')
  tell(j, data)
  return waiting and 'U' or 'N'
end

-- A child of a former life of its parent, under the same id. One whose parent is not known any more has ended, or was
-- abandoned. Any other one is a stranger's.
local function is_former(j, parent)
  local of = match(j.parent, '^(.*)#%x+$')
  if of then return of == parent.id end
  return (is_over(j) or has(j, 'x')) and sub(j.id, 1, #parent.id + 1) == parent.id .. '.'
end

-- It belongs to this life from now on, and runs for it.
local function take_over(j, parent, body, kind, item)
  if j.parent ~= '' then call('ZREM', INDEX, 'o:' .. j.parent .. '|' .. j.id) end
  j.parent = parent.id .. '#' .. parent.birth
  unflag(j, 'e')
  parent.open = parent.open + 1
  flag(parent, 'c')
  call('ZADD', INDEX, 0, 'o:' .. j.parent .. '|' .. j.id)
  if j.state == 'R' or j.state == 'W' then
    set_deadline(j, kind)
    j.again = num(kind.due)
    return 'R'
  end
  local over = is_over(j)
  leave(j)
  set_deadline(j, kind)
  if over then renew_life(j) else outdate(j) end
  j.queue, j.group, j.keep = kind.q.name, kind.group, tonumber(kind.keep)
  j.priority, j.max, j.due, j.attempts = kind.priority, tonumber(kind.max), kind.due, 0
  j.correlation = kind.correlation
  j.place = place_at(in_line(kind.q, kind.due, kind.priority), item)
  set_body(j.id, body)
  forget_notes(j)
  begin(j, kind)
  tell(j, body)
  return over and 'N' or 'U'
end

local function added(i)
  local id, body, kind = argv[base + i], argv[base + n + i], kinds[byte(kind_of, i)]
  local j = is_id(id) and job(id)
  if not kind or not is_id(id) or j == 'X' then return 'X' end
  if kind.q.shut or kind.is_early then return 'P' end
  if kind.q.pinned and kind.group == '' then return 'G' end
  local parent
  if kind.parent ~= '' then
    parent = sound(kind.parent)
    local child = parent and parent.id .. '#' .. parent.birth .. '|' .. id
    if child and (call('ZSCORE', INDEX, 'o:' .. child) or call('ZSCORE', INDEX, 'c:' .. child)) then return 'E' end
    if not takes(parent) then return 'H' end
  end
  if not j and mode == 'e' then return 'M' end
  local over = not j or is_over(j)
  if j and parent and is_former(j, parent) then
    if over and not has_room(kind.q) then return 'B' end
    return take_over(j, parent, body, kind, i - 1)
  end
  -- A flow that has ended is wherever its last stage was.
  local elsewhere = j and j.queue ~= kind.q.name and not (over and kind.flow ~= '' and j.flow == kind.flow)
  if j and (mode == 'k' or parent or elsewhere or over and mode == 'r') then return 'E' end
  if over and not has_room(kind.q) then return 'B' end
  if j then return again(j, body, kind, i - 1) end
  if kind.is_plain then make_plain(id, body, kind, i - 1) else make(id, body, kind, parent, i - 1) end
  return 'A'
end

local letters = {}
for i = 1, n do letters[i] = added(i) end
-- Parents of this call that have no child to wait for.
for _, j in pairs(waits) do
  if j.open == 0 and not has(j, 'o') then
    leave(j)
    enter(j, 'Q')
  end
end
-- Look-ups of a job that is new, or has new data: then they stand in the place of its former ones. One that runs keeps
-- both.
for i = of_lookups + 1, base - 1, 2 do
  local item, entry = tonumber(argv[i]), argv[i + 1]
  local letter = letters[item]
  local j = (letter == 'A' or letter == 'U' or letter == 'N') and job(argv[base + item])
  if j then
    if j.looked_up ~= item then
      if has(j, 'l') then drop_lookups(j) end
      j.looked_up, j.lookups = item, nil
    end
    call('ZADD', INDEX, 0, 'k:' .. entry .. '|' .. j.id)
    j.lookups = j.lookups and j.lookups .. '\n' .. entry or entry
    flag(j, 'l')
    call('HSET', EXTRAS, 'l:' .. j.id, j.lookups)
  end
end
flush()
call('SET', LANE, argv[2] .. '|' .. table.concat(letters), 'PX', 3600000)
return { 'OK', table.concat(letters) }
