#!lua flags=allow-oom
-- Requests about jobs, queues and groups from outside.
-- KEYS: meta queues counts jobs bodies extras ready timers leases groups turns waiting index
-- ARGV: inc, (letter, id, argument)*. The letters, with their arguments:
--       x: cancel (reason).
--       X: remove, with its children.
--       p: pause.
--       u: resume.
--       y: replay a job that failed or was cancelled (due ms).
--       t: run at (ms, 0 at once).
--       g: priority.
--       o: all children are there.
--       q: pause a queue (1, or 0 to resume).
--       G: a group of a queue (queue|group). Arguments: p pause, u resume, l<n>,<ms> limit with a window, c<n> concurrency, w<n> weight,
--          - as its queue.
-- Returns: OK, a letter per request: K done | S asked of whoever runs it | N no such job, queue or group | E not in that state |
--          B its queue is full | O the queue is pinned, and runs one job of a group at a time | X bad
--@base
--@counts
--@duty
--@wake
--@records
--@queues
--@groups
--@places
--@ends
--@whole
local function steer_queue(name, argument)
  local q = queue_of(name)
  if not q.known then return 'N' end
  local text = call('HGET', QUEUES, name)
  local flags = match(text, '^[gopz-]+')
  local kept = gsub(flags, '[p-]', '') .. (argument == '1' and 'p' or '')
  call('HSET', QUEUES, name, (kept == '' and '-' or kept) .. sub(text, #flags + 1))
  q.paused = argument == '1'
  if not q.paused then
    q.free = q.free + 1000
    if q.pinned then stir_pinned(q) end
  end
  return 'K'
end

local function steer_group(id, argument)
  local name, group = match(id, '^([^|]+)|([%w_:.~%%@/-]*)$')
  local q = name and queue_of(name)
  if not q or not q.grouped then return 'N' end
  local how, value = sub(argument, 1, 1), sub(argument, 2)
  local n, w = match(value, '^(%d*),(%d*)$')
  local is_endless = n and (tonumber(n) or 0) > 0 and (tonumber(w) or 0) == 0
  if how == 'l' and (not n or is_endless) or (how == 'c' or how == 'w') and not match(value, '^%d*$') or #value > 20
    or how == 'w' and (value == '0' or #value > 2) or not find('pulcw-', how, 1, true) or how == '' then return 'X' end
  if how == 'c' and value ~= '' and q.pinned then return 'O' end
  local g = group_of(q, group)
  if how == 'p' or how == 'u' then
    g.paused = how == 'p' and 'p' or ''
  elseif how == 'l' then
    g.limit, g.window_ms = n, w
  elseif how == 'c' then
    g.concurrency = value
  elseif how == 'w' then
    g.weight = value
  else
    g.paused, g.limit, g.window_ms, g.concurrency, g.weight = '', '', '', '', ''
  end
  return 'K'
end

local function in_line(j, item)
  return place_at((j.due > 0 and j.due or t) - j.priority * queue_of(j.queue).step, item)
end

local steps = {}

function steps.X(j)
  remove(j)
  return 'K'
end

function steps.x(j, reason)
  if is_over(j) then return 'E' end
  j.again = ''
  if j.state == 'R' then
    flag(j, 'x')
    call('SPUBLISH', CHANNEL .. j.node, 'c|' .. j.id .. '|' .. j.token)
    return 'S'
  end
  outdate(j)
  leave(j)
  finish(j, 'X', reason)
  return 'K'
end

function steps.p(j)
  if is_over(j) or j.state == 'W' then return 'E' end
  if j.state == 'P' then return 'K' end
  if j.state == 'R' then
    flag(j, 'p')
    return 'S'
  end
  leave(j)
  flag(j, 'p')
  enter(j, 'Q')
  tell(j)
  return 'K'
end

function steps.u(j)
  if not has(j, 'p') then return 'E' end
  if j.state ~= 'P' then
    unflag(j, 'p')
    return 'K'
  end
  leave(j)
  unflag(j, 'p')
  enter(j, 'Q')
  tell(j)
  return 'K'
end

function steps.y(j, due, item)
  if j.state ~= 'F' and j.state ~= 'X' then return 'E' end
  if not has_room(queue_of(j.queue)) then return 'B' end
  leave(j)
  renew_life(j)
  j.attempts, j.due = 0, tonumber(due)
  j.place = in_line(j, item)
  enter(j, 'Q')
  tell(j)
  return 'K'
end

function steps.t(j, due, item)
  if j.state ~= 'Q' and j.state ~= 'D' and j.state ~= 'P' then return 'E' end
  leave(j)
  j.due = tonumber(due)
  j.place = in_line(j, item)
  enter(j, 'Q')
  tell(j)
  return 'K'
end

function steps.g(j, priority, item)
  if j.state ~= 'Q' and j.state ~= 'D' and j.state ~= 'P' then return 'E' end
  leave(j)
  j.priority = tonumber(priority)
  local since = j.due > 0 and j.due or tonumber(sub(j.birth, 1, 11), 16)
  j.place = place_at(since - j.priority * queue_of(j.queue).step, item)
  enter(j, 'Q')
  tell(j)
  return 'K'
end

function steps.o(j)
  if not has(j, 'o') then return 'E' end
  unflag(j, 'o')
  if j.state == 'W' and j.open == 0 then
    leave(j)
    enter(j, 'Q')
    tell(j)
  end
  return 'K'
end

local function steered(letter, id, argument, item)
  if letter == 'q' then return steer_queue(id, argument) end
  if letter == 'G' then return steer_group(id, argument) end
  local time, priority = #argument < 14 and match(argument, '^%d+$'), match(argument, '^%-?%d$')
  if not steps[letter] or (letter == 'y' or letter == 't') and not time or letter == 'g' and not priority then return 'X' end
  local j = job(id)
  if not j then return 'N' end
  if j == 'X' then return 'X' end
  return steps[letter](j, argument, item)
end

local letters = {}
for i = 2, #argv, 3 do
  letters[#letters + 1] = steered(argv[i], argv[i + 1], argv[i + 2], (#letters) % 1000)
end
flush()
return { 'OK', table.concat(letters) }
