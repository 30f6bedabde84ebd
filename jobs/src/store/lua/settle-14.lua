#!lua flags=allow-oom
-- The fates of executions. Each names the token that it runs under; any other one is halted, and changes nothing.
-- KEYS: meta queues counts jobs bodies extras ready timers leases groups turns waiting index lane
-- ARGV: inc, number, count of tokens, token*, a byte per job: its token, a letter per job: its mode; then id*, then two
--       arguments per job. The modes, with their arguments:
--       c: done (result, data).
--       m: on to a queue (queue[|priority[|group]], data).
--       w: it waits for its children (-, data).
--       r: failed, runs again (delay_ms, error).
--       f: failed for good (error, data).
--       d: later, without an attempt (delay_ms, reason).
--       b: given back, without an attempt (-, -).
--       u: it goes on (-, data).
--       l: its group is blocked, without an attempt (until ms, -).
--       Data: '' | r<bytes> in place of the former | a<bytes> behind it
-- Returns: OK, a letter per job: K ended | Q pending | D delayed | F failed for good | C cancelled | W waits | M moved on |
--          U goes on | V goes on, was asked for again | Z goes on, somebody wants it cancelled | P no such queue |
--          G that queue is pinned, and it has no group | H halt: not its execution | X bad
--@base
--@lane
--@records
--@queues
--@wake
--@groups
--@places
--@ends
local of_tokens = 3
local token_of, modes = argv[of_tokens + argv[of_tokens] + 1], argv[of_tokens + argv[of_tokens] + 2]
local base, n = of_tokens + argv[of_tokens] + 2, #modes
local records = n > 0 and call('HMGET', JOBS, unpack(argv, base + 1, base + n)) or {}
-- Plain successes by queue, and the text that the records of each token begin with.
local plain, starts = {}, {}
for i = 1, argv[of_tokens] do starts[i] = '1|R|' .. argv[of_tokens + i] .. '|' end

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
  elseif mode == 'u' then
    local body = write(j, y)
    call('ZADD', LEASES, 'XX', num(t + queue_of(j.queue).lease), j.id)
    tell(j, body)
    return has(j, 'x') and 'Z' or j.again ~= '' and 'V' or 'U'
  elseif mode == 'm' then
    return move(j, x, y, item)
  elseif mode == 'w' then
    local body = write(j, y)
    leave(j)
    if has(j, 'x') then return finish(j, 'X', 'cancelled') end
    if has(j, 'b') then return finish(j, 'F', 'child ' .. failed_child(j) .. ' failed') end
    j.attempts = 0
    unflag(j, 'o')
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

-- A success that nobody waits for, of a job that is not kept: it leaves nothing.
local function leave_nothing(id, record, start)
  if not record or jobs[id] ~= nil or sub(record, 1, #start) ~= start then return false end
  local queue, group = match(record, '^%d+|[^|]*||||0|0|([^|]+)|([^|]*)|', #start + 1)
  if not queue then return false end
  dropped[id], jobs[id] = true, false
  unleased[#unleased + 1] = id
  plain[queue] = (plain[queue] or 0) + 1
  local q = queue_of(queue)
  if q.grouped then
    local g = group_of(q, group)
    g.running = max(0, g.running - 1)
  end
  return true
end

local function letter_of(i)
  local id, mode, x, y = argv[base + i], sub(modes, i, i), argv[base + n + 2 * i - 1] or '', argv[base + n + 2 * i] or ''
  if mode == 'c' and leave_nothing(id, records[i], starts[byte(token_of, i)] or '?') then return 'K' end
  if jobs[id] == nil then jobs[id] = records[i] and parse(id, records[i]) or false end
  local j, token = jobs[id], argv[of_tokens + byte(token_of, i)]
  local letter = 'H'
  if j == 'X' or not find('cmwrfdbul', mode, 1, true) then
    letter = 'X'
  elseif (mode == 'r' or mode == 'd' or mode == 'l') and not (#x < 14 and match(x, '^%d+$')) then
    letter = 'X'
  elseif j and j.state == 'R' and j.token == token then
    letter = settled(j, mode, x, y, i - 1)
  end
  return letter
end

local letters = {}
for i = 1, n do letters[i] = letter_of(i) end
for queue, done in pairs(plain) do
  count(queue, 'running', -done)
  count(queue, 'done', done)
  local q = queue_of(queue)
  if q.concurrency > 0 then q.free = q.free + done end
end
flush()
call('SET', LANE, argv[2] .. '|' .. table.concat(letters), 'PX', 3600000)
return { 'OK', table.concat(letters) }
