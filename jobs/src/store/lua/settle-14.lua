#!lua flags=allow-oom
-- The fates of executions. Each names the token that it runs under; any other one is halted, and changes nothing.
-- KEYS: meta queues counts jobs bodies extras ready timers leases groups turns waiting index lane
-- ARGV: inc, number, count of tokens, token*, a byte per job: its token, a letter per job: its mode; then id*, then two
--       arguments per job. The modes, with their arguments:
--       c: done (result, data).
--       m: on to a queue (queue[|priority[|group]], data).
--       w: it waits for its children (delay_ms if that is for nothing again, data).
--       r: failed, runs again (delay_ms, error).
--       f: failed for good (error, data).
--       d: later, without an attempt (delay_ms, reason).
--       b: given back, without an attempt (-, -).
--       u: it goes on (-, data).
--       n: the execution goes on, and these notes replace the former notes (-, notes).
--       a: it goes on, and the job runs again after it (due ms, -). One that somebody wants cancelled does not.
--       l: its group is blocked, without an attempt (until ms, -).
--       Data: '' | r<bytes> in place of the former | a<bytes> behind it
-- Returns: OK, a letter per job: K ended | Q pending | D delayed | F failed for good | C cancelled | W waits | M moved on |
--          U goes on | V goes on, was asked for again | Z goes on, somebody wants it cancelled | P no such queue |
--          G that queue is pinned, and it has no group | H halt: not its execution | X bad
--@base
--@lane
--@counts
local of_tokens = 3
local token_of, modes = argv[of_tokens + argv[of_tokens] + 1], argv[of_tokens + argv[of_tokens] + 2]
local base, n = of_tokens + argv[of_tokens] + 2, #modes
local records = n > 0 and call('HMGET', JOBS, unpack(argv, base + 1, base + n)) or {}
-- The text that the records of each token begin with.
local starts = {}
for i = 1, argv[of_tokens] do starts[i] = '1|R|' .. argv[of_tokens + i] .. '|' end

-- Most calls have only successes that leave nothing, of jobs without groups in queues without a concurrency. They need none of
-- the rest, which costs more than they do.
if n > 0 and not find(modes, '[^c]') then
  local done, seen, fits = {}, {}, true
  for i = 1, n do
    local id, record, start = argv[base + i], records[i], starts[byte(token_of, i)] or '?'
    local queue = record and not seen[id] and sub(record, 1, #start) == start
      and match(record, '^%d+|[^|]*||||0|0|([^|]+)||', #start + 1)
    if not queue then
      fits = false
      break
    end
    seen[id], done[queue] = true, (done[queue] or 0) + 1
  end
  for queue in pairs(done) do
    fits = fits and find(call('HGET', QUEUES, queue) or '', '^[pz-]+|%d+|[^|]*|%d+|%-?%d+|%-?%d+|%d+|%d+|0|') ~= nil
  end
  if fits then
    call('HGET', BODIES, '')
    call('ZREM', LEASES, unpack(argv, base + 1, base + n))
    call('HDEL', JOBS, unpack(argv, base + 1, base + n))
    call('HDEL', BODIES, unpack(argv, base + 1, base + n))
    for queue, count in pairs(done) do
      add_count(queue .. '|running', -count)
      add_count(queue .. '|done', count)
    end
    local letters = string.rep('K', n)
    call('SET', LANE, argv[2] .. '|' .. letters, 'PX', 3600000)
    return { 'OK', letters }
  end
end
--@duty
--@wake
--@records
--@queues
--@groups
--@places
--@ends
--@whole

local function write(j, data)
  local how, bytes = sub(data, 1, 1), sub(data, 2)
  if how == 'a' then bytes = (call('HGET', BODIES, j.id) or '') .. bytes elseif how ~= 'r' then return nil end
  call('HSET', BODIES, j.id, bytes)
  return bytes
end

local function move(j, to, data, item)
  local queue, priority, group = match(to, '^([^|]+)|?(%-?%d?)|?([%w_:.~%%@/-]*)$')
  local q = queue and queue_of(queue)
  if not q or q.shut then return 'P' end
  if not find(to, '|.*|') then group = j.group end
  if q.pinned and group == '' then return 'G' end
  local body = write(j, data)
  leave(j)
  count(j.queue, 'done', 1)
  if has(j, 'x') then return finish(j, 'X', 'cancelled') end
  j.queue, j.priority, j.group = queue, tonumber(priority) or j.priority, q.grouped and group or ''
  j.attempts, j.due, j.place = 0, 0, place_at(t - j.priority * q.step, item)
  forget_notes(j)
  enter(j, 'Q')
  tell(j, body)
  return 'M'
end

-- It runs again, and its attempt does not count.
local function put_back(j, mode, argument, reason)
  j.attempts = max(0, j.attempts - 1)
  local q = queue_of(j.queue)
  leave(j)
  if has(j, 'x') then return finish(j, 'X', 'cancelled') end
  if j.again ~= '' then return finish(j, 'F', '') end
  if mode == 'd' then
    j.due = t + argument
    set_result(j, reason)
  elseif mode == 'l' and q.grouped then
    local g = group_of(q, j.group)
    g.blocked = max(g.blocked, tonumber(argument))
  elseif mode == 'l' then
    j.due = tonumber(argument)
  end
  enter(j, 'Q')
  tell(j)
  return j.state == 'D' and 'D' or 'Q'
end

local function settled(j, mode, x, y, item)
  if mode == 'c' then
    write(j, y)
    leave(j)
    return finish(j, 'C', x)
  elseif mode == 'u' or mode == 'n' then
    local body = mode == 'u' and write(j, y)
    if mode == 'n' then set_notes(j, y) end
    call('ZADD', LEASES, 'XX', num(t + queue_of(j.queue).lease), j.id)
    tell(j, body, nil, mode == 'n' and y)
    return has(j, 'x') and 'Z' or j.again ~= '' and 'V' or 'U'
  elseif mode == 'a' then
    call('ZADD', LEASES, 'XX', num(t + queue_of(j.queue).lease), j.id)
    if has(j, 'x') then return 'Z' end
    j.again = num(tonumber(x))
    changed[j.id] = j
    return 'V'
  elseif mode == 'm' then
    return move(j, x, y, item)
  elseif mode == 'w' then
    local body = write(j, y)
    -- After the first wait of a life, the next run knows that the job has waited. A later wait tells of children that
    -- have ended since, or of nothing.
    local is_news = j.open > 0 or has(j, 'h') or has(j, 'b') or not has(j, 'c')
    if not is_news then return retry(j, tonumber(x) or 0, 'it waits, and nothing has ended since its last wait') end
    leave(j)
    if has(j, 'x') then return finish(j, 'X', 'cancelled') end
    if has(j, 'b') then
      local child = call('HGET', EXTRAS, 'b:' .. j.id .. '#' .. j.birth) or ''
      return finish(j, 'F', 'child ' .. child .. ' failed')
    end
    j.attempts = 0
    unflag(j, 'oh')
    -- Its next run knows that it has waited, also for nothing.
    flag(j, 'c')
    enter(j, j.open > 0 and 'W' or 'Q')
    tell(j, body)
    return 'W'
  elseif mode == 'r' then
    return retry(j, tonumber(x), y)
  elseif mode == 'f' then
    write(j, y)
    leave(j)
    return finish(j, has(j, 'x') and 'X' or 'F', x)
  end
  return put_back(j, mode, x, y)
end

-- A job that was not looked at leaves its execution: it runs no more, and has succeeded in this queue.
local function succeed(id, queue, group)
  local q = queue_of(queue)
  -- No other word of this call is for this execution.
  jobs[id] = false
  unleased[#unleased + 1] = id
  count(queue, 'running', -1)
  count(queue, 'done', 1)
  if in_group(q, group) then
    local g = group_of(q, group)
    g.running = max(0, g.running - 1)
  end
  if q.concurrency > 0 then q.free = q.free + 1 end
end

-- A success that nobody waits for, of a job that is not kept: it leaves nothing.
local function leave_nothing(id, record, start)
  local queue, group = match(record, '^%d+|[^|]*||||0|0|([^|]+)|([^|]*)|', #start + 1)
  if not queue then return false end
  dropped[id] = true
  succeed(id, queue, group)
  return true
end

local function put(id, record)
  local k = #fresh_records
  fresh_records[k + 1], fresh_records[k + 2] = id, record
end

-- A success that nobody waits for, of a job that is kept and has no children. Only some words of its record change.
local function keep_result(id, record, of, start, x, y)
  local attempts, flags, keep, queue, group, rest = match(record,
    '^(%d+)|[^|]*||([djl]*)||0|([1-9]%d*)|([^|]+)|([^|]*)|(.*)$', #start + 1)
  if not attempts then return false end
  write({ id = id }, y)
  succeed(id, queue, group)
  flags = gsub(flags, 'd', '')
  if x ~= '' then
    set_extra('r:' .. id, x)
    if not find(flags, 'j', 1, true) then flags = flags .. 'j' end
  end
  put(id, table.concat({ '1|C', of, attempts, '', '', flags, '', '0', keep, queue, group, rest }, '|'))
  timers['r:' .. id] = t + keep
  arm(t + keep)
  return true
end

-- The same for one that goes on to a queue without groups.
local function pass_on(id, record, of, start, x, y, item)
  local stays, queue, group, priority, most, rest = match(record,
    '^%d+|[^|]*||([dfjl]*|[^|]*|%d+|%-?%d+)|([^|]+)|([^|]*)|%x+|(%-?%d)|(%d+)|%d+|(.*)$', #start + 1)
  local to, other = match(x, '^([^|]+)|?(%-?%d?)|?[%w_:.~%%@/-]*$')
  local q = stays and to and queue_of(to)
  if not q or q.shut or q.grouped then return false end
  write({ id = id }, y)
  succeed(id, queue, group)
  priority = tonumber(other) or tonumber(priority)
  local place, k = place_at(t - priority * q.step, item), #fresh_ready
  put(id, table.concat({ '1|Q', of, '0', '', '', stays, to, '', place, num(priority), most, '0', rest }, '|'))
  fresh_ready[k + 1], fresh_ready[k + 2] = 0, to .. '|' .. place .. id
  q.added = q.added + 1
  return true
end

local function letter_of(i)
  local id, mode, x, y = argv[base + i], sub(modes, i, i), argv[base + n + 2 * i - 1] or '', argv[base + n + 2 * i] or ''
  local record, start, of = records[i], starts[byte(token_of, i)] or '?', argv[of_tokens + byte(token_of, i)]
  if record and jobs[id] == nil and sub(record, 1, #start) == start then
    if mode == 'c' then
      if leave_nothing(id, record, start) or keep_result(id, record, of, start, x, y) then return 'K' end
    elseif mode == 'm' and pass_on(id, record, of, start, x, y, i - 1) then
      return 'M'
    end
  end
  if jobs[id] == nil then jobs[id] = records[i] and parse(id, records[i]) or false end
  local j, token = jobs[id], of
  local letter = 'H'
  if j == 'X' or not find('cmwrfdbunla', mode, 1, true) then
    letter = 'X'
  elseif (find('rdla', mode, 1, true) or mode == 'w' and x ~= '') and not (#x < 14 and match(x, '^%d+$')) then
    letter = 'X'
  elseif j and j.state == 'R' and j.token == token then
    letter = settled(j, mode, x, y, i - 1)
  end
  return letter
end

local letters = {}
for i = 1, n do letters[i] = letter_of(i) end
flush()
call('SET', LANE, argv[2] .. '|' .. table.concat(letters), 'PX', 3600000)
return { 'OK', table.concat(letters) }
