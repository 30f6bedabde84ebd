#!lua
-- Repairs what is due: start events are sent again, assignments that nobody began are taken back, stops are returned
-- so that the caller sends them again, and jobs whose pause is over go on. Forgets ended ids whose time has come.
-- KEYS: pool settings jobs queue owners parked errors starts ended outcomes expired
-- ARGV: inc, limit, kick '' or n (also jobs that wait because no worker lived, from the n-th of those that wait on)
-- Returns: OK count next_due or '' now {key, id, owner, ..} stops {id, outcome, ..} {key, ..} bad {wid, ..} to reap
--          0|1 (it forgot as many ended ids as one call does) parked jobs, n of the kick's jobs left as they are |
--          BACKLOG, the same shape (the pool's stream is too long: nothing was sent again)
--@base
--@guard
--@clock
--@settings
--@records
--@paused
--@requeue
--@why
local head, refusal = guard()
if not head then return refusal end
local flag, route_ms, assign_ms, stop_ms, max_attempts =
  settings('route_timeout', 'assign_timeout', 'stop_retry', 'max_attempts')
local t, limit, kick = now(), tonumber(argv[2]), tonumber(argv[3])
local stops, told, bad = {}, {}, {}
local passed = 0

local FORGET_MAX = 512

local function forget_ended()
  local old = call('ZRANGEBYSCORE', ENDED, '-inf', num(t), 'LIMIT', 0, FORGET_MAX)
  if #old == 0 then return 0 end
  local ids = {}
  for _, member in ipairs(old) do
    local kind = byte(member)
    if kind == 33 or kind == 35 then ids[#ids + 1] = kind == 33 and sub(member, 2) or member end
  end
  call('ZREM', ENDED, unpack(old))
  if #ids > 0 then call('HDEL', OUTCOMES, unpack(ids)) end
  return #old == FORGET_MAX and 1 or 0
end

-- Jobs that are due now, or far in the future, as after a clock that stepped back. From `waiting` on, also queued jobs
-- that are due later than any event or assignment of now. A job that has failed and waits rests, but one that a router
-- found no worker for.
local function due_jobs()
  local due = call('ZRANGEBYSCORE', QUEUE, '-inf', num(t), 'LIMIT', 0, limit)
  local function add(from, to, after)
    if #due >= limit then return end
    for _, key in ipairs(call('ZRANGEBYSCORE', QUEUE, from, to, 'LIMIT', after, limit - #due)) do due[#due + 1] = key end
  end
  add('(' .. num(t + 300000), '+inf', 0)
  local waiting = #due + 1
  if kick then add('(' .. num(t + math.max(route_ms, assign_ms)), num(t + 30000), kick) end
  return due, waiting
end

local function repair(key, p)
  if p.state == 'Q' then
    announce(key, p.strikes, t + route_ms)
  elseif p.state == 'A' then
    p.strikes = num(p.strikes + 1)
    because(p, 't')
    if requeue(key, p, t, 0, route_ms, max_attempts, 'not begun in time') == 'P' then
      told[#told + 1] = p.id
      told[#told + 1] = 'parked'
    end
  elseif p.state == 'S' then
    call('ZADD', QUEUE, t + stop_ms, key)
    local j = #stops
    stops[j + 1], stops[j + 2], stops[j + 3] = key, p.id, p.owner
  else
    call('ZREM', QUEUE, key)
  end
end

-- Jobs whose pause is over. A parked job that has another score than its record says gets it.
local woken = {}

local function wake(key)
  local r = call('HGET', JOBS, key)
  local p = r and parse(r)
  if p and p.state == 'P' then
    local at = wakes_at(p)
    if tonumber(at) > t then return call('ZADD', PARKED, at, key) end
    woken[#woken + 1] = key
    p.strikes, p.attempts = '0', '0'
    because(p, 'w')
    requeue(key, p, t, 0, route_ms, math.huge, '')
  elseif r and not p then
    bad[#bad + 1] = key
    call('ZADD', PARKED, t + 60000, key)
  else
    call('ZREM', PARKED, key)
  end
end

local function wake_all()
  local over = redis.pcall('ZRANGEBYSCORE', PARKED, '-inf', num(t), 'LIMIT', 0, limit)
  if over.err then return 0 end
  for _, key in ipairs(over) do wake(key) end
  if #woken > 0 then
    call('ZREM', PARKED, unpack(woken))
    redis.pcall('HDEL', ERRORS, unpack(woken))
  end
  return #over
end

-- The first score of a set, if there is one.
local function first_of(set)
  local first = redis.pcall('ZRANGE', set, 0, 0, 'WITHSCORES')
  return tonumber(first[2])
end

local forgets_more = forget_ended()
local dead = call('HKEYS', EXPIRED)
local parked_jobs = redis.pcall('ZCARD', PARKED)
if type(parked_jobs) ~= 'number' then parked_jobs = 0 end
if is_stopping(flag) then return { 'OK', 0, '', num(t), {}, {}, {}, dead, forgets_more, parked_jobs, passed } end
if call('XLEN', STARTS) > 4096 then return { 'BACKLOG', 0, '', num(t), {}, {}, {}, dead, forgets_more, parked_jobs, passed } end
local due, waiting = due_jobs()
for i, key in ipairs(due) do
  local r = call('HGET', JOBS, key)
  local p = r and parse(r)
  if not r then
    call('ZREM', QUEUE, key)
  elseif i < waiting and not p then
    bad[#bad + 1] = key
    call('ZADD', QUEUE, t + 60000, key)
  elseif p and i < waiting then
    repair(key, p)
  elseif p and p.state == 'Q' and (tonumber(p.attempts) < 2 or find(p.tail, '^|[^|]*|o')) then
    if p.strikes ~= '0' then -- whom it was turned away by may have room, and whom the kick is for comes somewhere
      p.strikes = '0'
      records[#records + 1], records[#records + 2] = key, pack(p)
    end
    repair(key, p)
  else
    passed = passed + 1
  end
end
local over = wake_all()
write_requeues()
-- A score that no step has written may have a fraction, or be beyond all numbers.
local next_due, wakes = first_of(QUEUE), first_of(PARKED)
if wakes and wakes < 9e15 then next_due = math.min(next_due or wakes, wakes) end
next_due = next_due and num(math.floor(math.min(math.max(next_due, 0), 2 ^ 52)))
return { 'OK', #due + over, next_due or '', num(t), stops, told, bad, dead, forgets_more, parked_jobs, passed }
