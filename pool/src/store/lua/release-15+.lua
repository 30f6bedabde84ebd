#!lua flags=allow-oom
-- The owner gives jobs up; their handlers have ended. A stopping job, and every job of a stopping pool, is deleted
-- whatever the mode: what was not to end gets the outcome `shutdown` then. Any other job with a later payload than the
-- one that it ran with is queued, or rests where an operator wants that. Finished entries of the owner's stream are deleted.
-- In phase R, an end that names its payload is that of the run alone: one under a higher token may be reported.
-- KEYS: pool settings jobs payloads owners queue parked errors notifications checkpoints starts ended outcomes
--       planned worker, then the stream of each node named
-- ARGV: inc, wid, count of entries, entry*, count of ways to leave, way*, count of tokens, token*, a byte per job:
--       which token it has, a byte per job: its way, then key*.
--       A way begins with its mode d|h|b|r|e|q|p, the letter why and a delay. The delay is in ms. For mode e it is how
--       many workers may get the job. Then come the indexes of the dispatcher's and of the stopper's node, or 0. The
--       result follows, and s:error for the stopper or ''. Then come the generation of the payload that it ran with, or
--       '', and why an operator wanted to have it at rest that ends now, or ''.
-- Returns: OK, a letter per job: D deleted | Q queued | P parked | S stale | X bad record |
--          L nothing done, later: the call has deleted a page of notifications
--@base
--@guard
--@clock
--@settings
--@records
--@confirm
--@generation
--@outcome
--@run_ends
--@notes
--@delete
--@paused
--@requeue
--@why
--@elsewhere
--@tell
local head, refusal = guard(true)
if not head then return refusal end
local flag, late_ms, retention_ms, max_attempts, stable_ms, route_ms =
  settings('max_dispatch_deadline', 'outcome_retention', 'max_attempts', 'stable_run', 'route_timeout')
local stopping, t = is_stopping(flag), now()
local wid, entries, ways = argv[2], tonumber(argv[3]), {}
local of_tokens = 5 + entries + 8 * argv[4 + entries]
local base = of_tokens + argv[of_tokens] + 2
local n, token_of, way_of = #argv - base, argv[base - 1], argv[base]
local letters, events, seen = {}, {}, {}
for at = 5 + entries, of_tokens - 1, 8 do
  ways[#ways + 1] = { mode = argv[at], why = argv[at + 1], delay = math.min(tonumber(argv[at + 2]), 240000), dispatcher = argv[at + 3],
    stopper = argv[at + 4], result = argv[at + 5], ran = tonumber(argv[at + 6]),
    rests = argv[at] == 'd' and argv[at + 7] or argv[at + 5], stop_failed = argv[at] == 'd' and sub(argv[at + 5], 1, 2) == 's:' }
end

local function tell(x, id, outcome)
  if x == '0' then return end
  local event = events[x] or {}
  events[x] = event
  event[#event + 1] = id
  event[#event + 1] = outcome
end

-- Gives up a job that does not end.
local function hand_off(way, key, p)
  local mode, delay, running, most = way.mode, way.delay, p.state == 'R', max_attempts
  if mode == 'h' then
    if running then p.attempts = '0' end -- one that was not begun here has shown nothing
    p.strikes = '0'
  elseif mode == 'b' then
    if running then p.attempts = num(math.max(0, p.attempts - 1)) end
    p.strikes = '0'
  elseif mode == 'r' then
    if running then p.attempts = num(math.max(0, p.attempts - 1)) end
    p.strikes = num(p.strikes + 1)
  elseif mode == 'e' then
    if running then p.attempts = num(math.max(0, p.attempts - 1)) end
    delay = elsewhere(p, delay)
  elseif mode == 'p' then
    if running then p.attempts = num(math.max(0, p.attempts - 1)) end
    most = 0
  elseif running and t - p.since >= stable_ms then
    p.attempts = '1'
  end
  because(p, way.why, way.why == 'r' and way.result)
  local reply = requeue(key, p, t, delay, route_ms, most, way.result)
  if reply == 'P' then tell(way.dispatcher, p.id, way.why == 'z' and 'paused' or 'parked') end
  return reply
end

-- The rest of a record after its token, for a plain job. It was begun, is of no plan, has an id that its node made, and
-- was not attested; behind that stands nothing, or why it is here. Nothing but this is looked at when it ends.
local plain = '^%d+|[12]|(%d+)|([0-9A-Za-z_:-]+%.[0-9A-Za-z_:.-]+)|(%d+)||%d+|()'
local last, running, stopped, length
-- The way of a job with a later payload: it goes on, or rests as an operator wants it.
local function renewed(way)
  if way.why == 'p' or way.why == 'z' then
    return { mode = 'p', why = way.why, delay = 0, dispatcher = way.dispatcher, result = way.rests }
  end
  return { mode = 'h', why = 'c', delay = 0, dispatcher = way.dispatcher, result = '' }
end

local function give_up(key, r, token, way)
  if token ~= last then
    last = token
    running, stopped = '1|R|' .. wid .. '|' .. token .. '|', '1|S|' .. wid .. '|' .. token .. '|'
    length = #running
  end
  local mode, outcome, start = way.mode, way.result, sub(r, 1, length)
  local to_stop = start == stopped
  local ends, since, id, created, p = mode == 'd' or to_stop or stopping, nil, nil, nil, nil
  if ends and (to_stop or start == running) then
    local behind
    since, id, created, behind = match(r, plain, length + 1)
    if id and behind <= #r and not find(r, '^||%l%d*$', behind) then id = nil end
  end
  if not id then
    p = parse(r)
    if not p then return 'X' end
    if p.owner ~= wid or p.token ~= token or p.state == 'Q' or p.state == 'P' then return 'S' end
    id = p.id
    -- In these ways a worker says that no handler had the job.
    local nobody_had = mode == 'b' or mode == 'e' and way.result == ''
    if p.state == 'R' and not nobody_had then confirm(p) end
    if way.ran and not to_stop and not stopping and generation_of(p.tail) > way.ran then ends, way = false, renewed(way) end
  end
  if ends and is_full() then return 'L' end
  seen[key] = true
  if not ends then return hand_off(way, key, p) end
  if mode ~= 'd' and not to_stop then
    outcome = 'shutdown'
  elseif outcome == '' or way.stop_failed then
    outcome = to_stop and 'stopped' or 'ended'
  end
  if p then
    delete(key, p, t, outcome, late_ms, retention_ms)
  else
    collect(key, wid, to_stop, id, math.max(since, created), t, late_ms)
  end
  local by_run = head[2] == 'R' and way.ran and not to_stop
  if mode ~= 'd' or by_run then -- who may not hear that it has ended may say after a loss of data that it has it
    local at = math.max(t, p and p.created or created)
    remembered[#remembered + 1] = at + late_ms
    remembered[#remembered + 1] = id
    if by_run then end_by_run(id, token, at, at + late_ms) end
  end
  tell(way.dispatcher, id, outcome)
  tell(way.stopper, id, way.stop_failed and way.result or outcome)
  return 'D'
end

if n > 0 then
  local stored = call('HMGET', JOBS, unpack(argv, base + 1, base + n))
  for i = 1, n do
    local key, r = argv[base + i], stored[i]
    local token, way = argv[of_tokens + byte(token_of, i)], ways[byte(way_of, i)]
    letters[i] = r and not seen[key] and give_up(key, r, token, way) or 'S'
  end
  write_deletions()
  write_requeues()
  write_confirmed()
  tell_nodes(15, events)
end
-- A stream that is damaged fails no job.
if entries > 0 then redis.pcall('XDEL', WORKER, unpack(argv, 4, 3 + entries)) end
return { 'OK', table.concat(letters) }
