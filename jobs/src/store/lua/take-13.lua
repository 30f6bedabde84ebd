#!lua
-- Jobs begin: each goes from ready to running, under the call's token, with a lease. Where the call takes less than it
-- may, the node is registered as waiting, and woken. An answer of 1 MiB is full.
-- KEYS: meta queues counts jobs bodies extras ready timers leases groups turns waiting lane
-- ARGV: inc, number, node, registration to take back or '', how many (128 at most), slots to wait with (0: it does not wait), scheduled
--       until (ms) or '', (queue, at most)*. Of a pinned queue `queue/group`: the lane is the group's, and the number rises
--       from owner to owner. So a former owner comes too late.
-- Returns: OK, token or '', registration or '', 1 if more is ready or '', then per job its id, record, body, and lease
--          with the terms of its queue if any: lease,terms. A job with notes has a list of body and notes in place of
--          the body | HOLD, ms while running jobs are found again after a loss of data | LATE | NOTOKENS | BADARG. A
--          repeated call gets the jobs that still run for the call
--@base
--@counts
--@duty
--@wake
local node, registration, want, slots, until_ms = argv[3], argv[4], tonumber(argv[5]), tonumber(argv[6]), argv[7]
if not is_name(node) or not want or not slots then return { 'BADARG' } end
local hold = until_when(meta[3])
if hold > t then return { 'HOLD', num(hold - t) } end
if last >= LAST_TOKEN then return { 'NOTOKENS' } end
-- A lane that cannot be read is none.
local before = redis.pcall('GET', LANE)
local number, answer = match(type(before) == 'string' and before or '', '^(%d+)|(%d*|[^ ]* ?.*)$')
if number then
  if #number > #argv[2] or #number == #argv[2] and number > argv[2] then return { 'LATE' } end
end
local repeated = number == argv[2]
if registration ~= '' and not repeated then
  local members = {}
  for i = 8, #argv, 2 do members[#members + 1] = argv[i] .. '|' .. registration end
  -- A node with a free slot also looks by itself: a damaged key holds nobody up.
  redis.pcall('ZREM', WAITING, unpack(members))
end

-- The end of a call that took these: the node waits for some queues. Others may wait for what it left elsewhere, also when it
-- was this node that was woken for it.
local function answered(out, took, waits, others)
  if #waits > 0 then
    -- A node that takes only what is scheduled until a time stands behind all others, and the latest time stands
    -- first. So nobody who could take a job stands behind one who could not.
    local behind = until_ms == '' and '' or fmt('f%011x', max(0, 8796093022208 - until_ms))
    out[3] = behind .. fmt('%014x', mint()) .. '|' .. node .. '|' .. num(slots)
    local registered = {}
    for i = 1, #waits do registered[2 * i - 1], registered[2 * i] = 0, waits[i] .. '|' .. out[3] end
    redis.pcall('ZADD', WAITING, unpack(registered))
  end
  for i = 1, #others do wake(others[i], 1) end
  tell_duty()
  call('SET', LANE, argv[2] .. '|' .. out[2] .. '|' .. out[3] .. ' ' .. took, 'PX', 3600000)
  return out
end

-- Most calls name only queues without groups, limits, a concurrency and a pause, whose jobs nobody watches. They need none of
-- the rest, which costs more than they do. Nothing is written before it is sure that this is such a call.
if not repeated and until_ms == '' then
  local names, leases_of, terms_of, mosts, founds, taken, known = {}, {}, {}, {}, {}, {}, {}
  local ids, members, of, fits = {}, {}, {}, true
  for i = 8, #argv, 2 do
    local k, name, most = #names + 1, argv[i], tonumber(argv[i + 1]) or 0
    local lease, terms = match(call('HGET', QUEUES, name) or '',
      '^%-|(%d+)|([^|]*)|%d+|%-?%d+|%-?%d+|%d+|%d+|0|0|')
    fits = lease ~= nil and not known[name]
    if not fits then break end
    local room = max(0, min(want - #ids, 128 - #ids, most))
    -- One more than it takes: whether any is left.
    local found = call('ZRANGE', READY, '[' .. name .. '|', '(' .. name .. '}', 'BYLEX', 'LIMIT', 0, room + 1)
    for j = 1, min(room, #found) do
      local z = #ids + 1
      -- A place has 17 characters.
      ids[z], members[z], of[z] = sub(found[j], #name + 19), found[j], k
    end
    terms_of[k] = terms ~= '' and lease .. ',' .. terms or lease
    names[k], leases_of[k], mosts[k], founds[k], taken[k], known[name] = name, lease, most, #found, 0, true
  end
  local out, records, leases, count = { 'OK', '', '', '' }, {}, {}, 0
  if fits and #ids > 0 then
    local stored, of_token = call('HMGET', JOBS, unpack(ids)), num(mint())
    local start, runner, bodies, first, bytes, ends = '1|R|' .. of_token .. '|', '|' .. node .. '|', nil, 0, 0, {}
    for i = 1, #ids do
      -- The fields that change stand first in a record.
      local attempts, rest = match(stored[i] or '', '^1|Q|%d+|(%d+)||(.*)$')
      if not attempts or find(rest, '^%d*|%a*[wn]') then
        fits = false
        break
      end
      if i > first + 32 or not bodies then
        first = i - 1
        bodies = call('HMGET', BODIES, unpack(ids, i, min(i + 31, #ids)))
      end
      local id, record, body, k, z = ids[i], start .. num(attempts + 1) .. runner .. rest, bodies[i - first] or '', of[i], #out
      ends[k] = ends[k] or num(t + leases_of[k])
      records[2 * i - 1], records[2 * i], leases[2 * i - 1], leases[2 * i] = id, record, ends[k], id
      out[z + 1], out[z + 2], out[z + 3], out[z + 4] = id, record, body, terms_of[k]
      count, taken[k], bytes = i, taken[k] + 1, bytes + #body
      if bytes > 1048576 then break end
    end
    if fits then
      -- First the key that was not read: a key of the wrong type stops the call before any write.
      call('ZADD', LEASES, unpack(leases))
      call('ZREM', READY, unpack(members, 1, count))
      call('HSET', JOBS, unpack(records))
      out[2] = of_token
    end
  end
  if fits then
    local waits, others = {}, {}
    for k, name in ipairs(names) do
      if taken[k] > 0 then
        add_count(name .. '|running', taken[k])
        arm(t + leases_of[k])
      end
      local more = founds[k] > taken[k]
      if count < want and taken[k] < mosts[k] then
        if more then
          out[4] = '1'
        elseif slots > 0 then
          waits[#waits + 1] = name
        end
      elseif more then
        others[#others + 1] = name
      end
    end
    return answered(out, table.concat(ids, ' ', 1, count), waits, others)
  end
end
--@records
--@queues
--@groups
-- A key of the wrong type is refused before the first write.
call('HGET', EXTRAS, '')
call('HGET', GROUPS, '')
call('ZSCORE', TIMERS, '')
call('ZSCORE', LEASES, '')
call('ZSCORE', TURNS, '')

-- The lease and the terms of a queue's executions.
local function terms_of(q) return num(q.lease) .. (q.terms ~= '' and ',' .. q.terms or '') end

if repeated then
  local of, reg, list = match(answer, '^(%d*)|([^ ]*) ?(.*)$')
  local out, ids = { 'OK', of, reg, '' }, {}
  for id in string.gmatch(list, '[^ ]+') do ids[#ids + 1] = id end
  read(ids)
  for i = 1, #ids do
    local j = sound(ids[i])
    if j and j.state == 'R' and j.token == of then
      local z = #out
      local notes = has(j, 'n') and call('HGET', EXTRAS, 'n:' .. j.id)
      local body = call('HGET', BODIES, j.id) or ''
      out[z + 1], out[z + 2], out[z + 3] = j.id, pack(j), notes and { body, notes } or body
      out[z + 4] = terms_of(queue_of(j.queue))
    end
  end
  return out
end
local asked = {}
for i = 8, #argv, 2 do
  local slash = find(argv[i], '/', 1, true)
  local q = queue_of(slash and sub(argv[i], 1, slash - 1) or argv[i])
  q.waits_as, q.group = argv[i], slash and sub(argv[i], slash + 1)
  q.most, q.taken = tonumber(argv[i + 1]) or 0, 0
  asked[#asked + 1] = q
end

-- Nobody but the last owner waits for a group.
for i = 1, #asked do
  local name = asked[i].group and asked[i].waits_as
  local former = name and redis.pcall('ZRANGE', WAITING, '[' .. name .. '|', '(' .. name .. '}', 'BYLEX', 'LIMIT', 0, 64) or {}
  if #former > 0 then call('ZREM', WAITING, unpack(former)) end
end

-- Candidates in the order in which they go: ids, members of ready, and their queues.
local ids, members, of = {}, {}, {}
local function bound(q)
  return until_ms ~= '' and not q.grouped and '(' .. q.name .. '|' .. fmt('%011x', until_ms + 1) or '(' .. q.name .. '}'
end

local function pick(member, prefix, q)
  local k = #ids + 1
  -- A place has 17 characters.
  ids[k], members[k], of[k] = sub(member, prefix + 19), member, q
end

-- The groups whose turn it is: the least tag first, a job each, and round again.
local strayed = false
local function pick_groups(q, room)
  local line, at = {}, 1
  local found = call('ZRANGE', TURNS, '[' .. q.name .. '|', '(' .. q.name .. '}', 'BYLEX', 'LIMIT', 0, min(room, 64))
  for i = 1, #found do
    local g = group_of(q, sub(found[i], #q.name + 17))
    if g.place == 'q' and turn_member(g, g.tag) == found[i] then
      line[#line + 1] = g
      g.take, g.free = 0, min(g.ready, (allowance_of(g)))
    else
      -- The group stands here for nothing, or has forgotten the ready jobs.
      call('ZREM', TURNS, found[i])
      g.ready, strayed = ready_in(g), true
    end
  end
  local sequence, length = {}, #line
  while #sequence < room and at <= length do
    local g = line[at]
    at = at + 1
    if g.take < g.free then
      if g.tag > turn_of(q) then q.turn, q.turned = g.tag, true end
      g.take, g.tag = g.take + 1, g.tag + max(1, floor(100 / (tonumber(g.weight) or 1)))
      sequence[#sequence + 1] = g
      local j = length
      while j >= at and line[j].tag > g.tag do
        line[j + 1] = line[j]
        j = j - 1
      end
      line[j + 1], length = g, length + 1
    end
  end
  local first = {}
  for i = 1, #sequence do
    local g = sequence[i]
    if not first[g] then
      first[g] = call('ZRANGE', READY, '[' .. g.key .. '|', '(' .. g.key .. '}', 'BYLEX', 'LIMIT', 0, g.take)
      first[g].at = 0
    end
    local list = first[g]
    list.at = list.at + 1
    if list[list.at] then pick(list[list.at], #g.key, q) else g.ready = max(0, g.ready - 1) end
  end
end

-- The next jobs of a group, for its owner.
local function pick_pinned(q, room)
  local g = group_of(q, q.group)
  local free = g.paused == '' and min(room, g.ready, (allowance_of(g))) or 0
  if free <= 0 then return end
  local found = call('ZRANGE', READY, '[' .. g.key .. '|', '(' .. g.key .. '}', 'BYLEX', 'LIMIT', 0, free)
  for i = 1, #found do pick(found[i], #g.key, q) end
  g.ready = g.ready - free + #found
end

-- How many a queue's own limits let begin.
local function room_of(q)
  if q.shut or q.paused then return 0 end
  if q.pinned ~= (q.group ~= nil) then return 0 end
  local room = 1e9
  if q.concurrency > 0 then
    q.running = q.running or counted(redis.pcall('HGET', COUNTS, q.name .. '|running'))
    room = max(0, q.concurrency - q.running - q.taken)
  end
  if q.limit > 0 and q.window > 0 then
    if not q.meter then
      local found = redis.pcall('HGET', COUNTS, q.name .. '|limit')
      local window, used = match(type(found) == 'string' and found or '', '^(%d+)/(%d+)$')
      q.meter = { window = counted(window), used = counted(used) }
    end
    local left, till = allowance(q.meter, q.limit, q.window)
    room, q.till = min(room, left), till > 0 and till or nil
  end
  return room
end

for i = 1, #asked do
  local q = asked[i]
  local room = min(want - #ids, 128 - #ids, q.most, room_of(q))
  if room > 0 then
    if q.pinned then
      pick_pinned(q, room)
    elseif q.grouped then
      pick_groups(q, room)
    else
      local found = call('ZRANGE', READY, '[' .. q.name .. '|', bound(q), 'BYLEX', 'LIMIT', 0, room)
      for j = 1, #found do pick(found[j], #q.name, q) end
    end
  end
end

local out, took, gone, records, leases, bytes, full = { 'OK', '', '', '' }, {}, {}, {}, {}, 0, false
if #ids > 0 then
  local stored, of_token = call('HMGET', JOBS, unpack(ids)), num(mint())
  local start, runner, bodies, first = '1|R|' .. of_token .. '|', '|' .. node .. '|', nil, 0
  for i = 1, #ids do
    local id, q = ids[i], of[i]
    local g = q.grouped and group_of(q, sub(members[i], #q.name + 2, -#id - 19))
    if full then
      if g then g.tag = max(g.tag_before, g.tag - max(1, floor(100 / (tonumber(g.weight) or 1)))) end
    else
      gone[#gone + 1] = members[i]
      if g then g.ready = max(0, g.ready - 1) end
      -- The fields that change stand first in a record.
      local attempts, rest = match(stored[i] or '', '^1|Q|%d+|(%d+)||(.*)$')
      local record = attempts and start .. num(attempts + 1) .. runner .. rest
      local flags = attempts and match(rest, '^%d*|(%a*)') or ''
      local j = find(flags, 'w', 1, true) and parse(id, record)
      if attempts and j ~= 'X' then
        if j then
          j.news = j.news + 1
          record = pack(j)
          local message = 's|' .. cmsgpack.pack({ id, 'R', of_token, num(j.news), false, false, false })
          for watcher in string.gmatch(call('HGET', EXTRAS, 's:' .. id) or '', '([^,#]+)#') do
            call('SPUBLISH', CHANNEL .. watcher, message)
          end
        end
        if i > first + 32 or not bodies then
          first = i - 1
          bodies = call('HMGET', BODIES, unpack(ids, i, min(i + 31, #ids)))
        end
        local body, z, k = bodies[i - first] or '', #out, #took + 1
        local notes = find(flags, 'n', 1, true) and call('HGET', EXTRAS, 'n:' .. id)
        records[2 * k - 1], records[2 * k] = id, record
        q.ends, q.says = q.ends or num(t + q.lease), q.says or terms_of(q)
        leases[2 * k - 1], leases[2 * k] = q.ends, id
        out[z + 1], out[z + 2], out[z + 3], out[z + 4] = id, record, notes and { body, notes } or body, q.says
        took[k], q.taken, bytes = id, q.taken + 1, bytes + #body + #(notes or '')
        if g then
          g.running = g.running + 1
          if limit_of(g) > 0 then g.used = g.used + 1 end
        end
        full = bytes > 1048576
      end
    end
  end
  if #gone > 0 then call('ZREM', READY, unpack(gone)) end
  if #took > 0 then
    call('HSET', JOBS, unpack(records))
    call('ZADD', LEASES, unpack(leases))
    out[2] = of_token
  end
end
if #ids > 0 or strayed then place_groups() end
local waits, others = {}, {}
for i = 1, #asked do
  local q = asked[i]
  if q.taken > 0 then
    add_count(q.name .. '|running', q.taken)
    arm(t + q.lease)
  end
  if q.turned then redis.pcall('HSET', COUNTS, q.name .. '|turn', num(q.turn)) end
  if q.meter and q.taken > 0 then
    q.meter.used = q.meter.used + q.taken
    redis.pcall('HSET', COUNTS, q.name .. '|limit', num(q.meter.window) .. '/' .. num(q.meter.used))
  end
  local can = room_of(q) > 0
  if can and q.group then
    local g = group_of(q, q.group)
    can = g.place == 'q' and g.ready > 0
  elseif can then
    can = has_ready(q, bound(q))
  end
  if q.till and not q.paused and not q.shut then
    call('ZADD', TIMERS, num(q.till), 'g:' .. q.name)
    arm(q.till)
  end
  if #took < want and q.taken < q.most then
    if can then
      out[4] = '1'
    elseif slots > 0 then
      waits[#waits + 1] = q.waits_as
    end
  elseif can and not q.group then
    others[#others + 1] = q.name
  end
end
return answered(out, table.concat(took, ' '), waits, others)
