#!lua
-- Makes a queue, or changes its settings. It stays plain, grouped or pinned, and paused or not. With another lease what runs
-- has its lease anew; other limits hold for groups at once. That goes page by page, until the cursor is ''.
-- KEYS: meta queues counts jobs ready timers leases groups turns waiting
-- A queue that was only named, and never had a job, becomes of any kind.
-- ARGV: inc, queue, settings, cursor or '', or n to change no queue that is there, size of a page
-- Returns: OK, cursor or '' | GROUPS it would change between plain, grouped and pinned | BADARG
--@base
--@duty
--@wake
--@records
--@queues
--@groups
-- A key of the wrong type is refused before the first write.
call('HGET', JOBS, '')
call('HGET', GROUPS, '')
call('ZSCORE', READY, '')
call('ZSCORE', TIMERS, '')
call('ZSCORE', LEASES, '')
call('ZSCORE', TURNS, '')
local name, text = argv[2], argv[3]
local q = queue_of(name)
local flags = match(text, '^([goz-]+)|%d+|[^|]*|%d+|%-?%d+|%-?%d+|%d+|%d+|%d+|%d+|%d+|%d+|%d+|%d+')
if not flags or not is_name(name) or #flags > 3 then return { 'BADARG' } end
local grouped, pinned = find(flags, 'g', 1, true) ~= nil, find(flags, 'o', 1, true) ~= nil
if pinned and not grouped then return { 'BADARG' } end

-- Whether no job has ever come to it.
local function is_blank()
  local fields = {}
  for _, of in ipairs({ 'running', 'delayed', 'waiting', 'done', 'failed', 'cancelled' }) do
    fields[#fields + 1] = name .. '|' .. of
  end
  for _, n in ipairs(call('HMGET', COUNTS, unpack(fields))) do
    if n and n ~= '0' then return false end
  end
  return not has_ready(q)
end

-- Whether the queue has lost its settings, and had groups. Only a declaration knows how its jobs take turns.
local kind = name .. '|kind'
local function had_groups() return type(redis.pcall('HGET', COUNTS, kind)) == 'string' end
if argv[4] == 'n' and (q.known or had_groups()) then return { 'OK', '' } end
if q.known and (q.grouped ~= grouped or q.pinned ~= pinned) and not (is_named(q) and is_blank()) then
  return { 'GROUPS' }
end
if q.paused then text = gsub(flags, '%-', '') .. 'p' .. sub(text, #flags + 1) end
if grouped then
  redis.pcall('HSET', COUNTS, kind, pinned and 2 or 1)
else
  redis.pcall('HDEL', COUNTS, kind)
end
call('HSET', QUEUES, name, text)
queues[name] = nil
local was = q
q = queue_of(name)
local phase, cursor = match(argv[4], '^([lg])(%d+)$')
if not phase then
  if not pinned and has_ready(q) then wake(name, 1000) end
  tell_duty()
  if not was.known then return { 'OK', '' } end
  local lease, limits = was.lease ~= q.lease, grouped and (was.group_limit ~= q.group_limit
    or was.group_window ~= q.group_window or was.group_concurrency ~= q.group_concurrency)
  if not lease and not limits then return { 'OK', '' } end
  phase, cursor = lease and 'l' or 'g', '0'
end
if phase == 'l' then
  local page = call('ZSCAN', LEASES, cursor, 'COUNT', argv[5])
  local anew, nodes = {}, {}
  for i = 1, #page[2], 2 do
    local j = sound(page[2][i])
    if j and j.state == 'R' and j.queue == name then
      anew[#anew + 1] = num(t + q.lease)
      anew[#anew + 1] = j.id
      nodes[j.node] = true
    end
  end
  if #anew > 0 then
    call('ZADD', LEASES, 'XX', unpack(anew))
    arm(t + q.lease)
    -- The node that runs one renews it by the new lease.
    for node in pairs(nodes) do call('SPUBLISH', CHANNEL .. node, 'e|') end
  end
  if page[1] ~= '0' then
    phase, cursor = 'l', page[1]
  elseif grouped then
    phase, cursor = 'g', '0'
  else
    phase = nil
  end
else
  local page = call('HSCAN', GROUPS, cursor, 'COUNT', argv[5])
  for i = 1, #page[2], 2 do
    local of, group = match(page[2][i], '^([^|]+)|(.*)$')
    if of == name then group_of(q, group) end
  end
  place_groups()
  if q.added > 0 and not q.paused then wake_for(q) end
  if page[1] ~= '0' then phase, cursor = 'g', page[1] else phase = nil end
end
tell_duty()
return { 'OK', phase and phase .. cursor or '' }
