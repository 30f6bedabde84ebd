#!lua flags=allow-oom
-- The owner gives jobs up; their handlers have ended. A stopping job, and every job of a stopping pool, is deleted
-- whatever the mode: what was not to end gets the outcome `shutdown` then. Entries of the owner's stream that are finished are deleted.
-- KEYS: m cf jo jp bw q pk je jn ps tb od pi ws, then the ns of each node named
-- ARGV: inc, wid, count of entries, entry*, then (key, token, mode d|h|b|r|q, delay ms, index of the dispatcher's node
--       or 0, index of the stopper's node or 0, result or '')*
-- Returns: OK, a letter per job, D deleted | Q queued | P parked | S stale | X bad record
--@base
--@guard
--@clock
--@settings
--@records
--@outcome
--@delete
--@requeue
--@tell
local head, refusal = guard(true)
if not head then return refusal end
local flag, late_ms, od_ms, max_attempts, stable_ms, route_ms =
  settings('late_ms', 'od_ms', 'max_attempts', 'stable_ms', 'route_ms')
local stopping, t = is_stopping(flag), now()
local wid, entries = argv[2], tonumber(argv[3])
local base = 3 + entries
local n = (#argv - base) / 7
local letters, events, seen = {}, {}, {}

local function tell(node, id, outcome)
  local x = tonumber(node)
  if x == 0 then return end
  local event = events[x] or {}
  events[x] = event
  event[#event + 1] = id
  event[#event + 1] = outcome
end

local function give_up(key, p, at)
  local mode, delay, result = argv[at + 2], math.min(tonumber(argv[at + 3]), 240000), argv[at + 6]
  if mode == 'd' or p.state == 'S' or stopping then
    local outcome = result
    if mode ~= 'd' and p.state ~= 'S' then
      outcome = 'shutdown'
    elseif outcome == '' then
      outcome = p.state == 'S' and 'stopped' or 'ended'
    end
    delete(key, p, t, outcome, late_ms, od_ms)
    if mode ~= 'd' then -- who may not hear that it has ended may say after a loss of data that it has it
      remembered[#remembered + 1] = t + late_ms
      remembered[#remembered + 1] = p.id
    end
    tell(argv[at + 4], p.id, outcome)
    tell(argv[at + 5], p.id, outcome)
    return 'D'
  end
  local running = p.state == 'R'
  if mode == 'h' then
    if running then p.attempts = '0' end -- one that was not begun here has shown nothing
    p.mix = '0'
  elseif mode == 'b' then
    if running then p.attempts = num(math.max(0, p.attempts - 1)) end
    p.mix = '0'
  elseif mode == 'r' then
    if running then p.attempts = num(math.max(0, p.attempts - 1)) end
    p.mix = num(p.mix + 1)
  elseif running and t - p.since >= stable_ms then
    p.attempts = '1'
  end
  local reply = requeue(key, p, t, delay, route_ms, max_attempts, result)
  if reply == 'P' then tell(argv[at + 4], p.id, 'parked') end
  return reply
end

if n > 0 then
  local keys = {}
  for i = 1, n do keys[i] = argv[base + 7 * i - 6] end
  local stored = call('HMGET', JO, unpack(keys))
  for i = 1, n do
    local at = base + 7 * i - 6
    local key, r, reply = keys[i], stored[i], 'S'
    if r and not seen[key] then
      local p = parse(r)
      if not p then
        reply = 'X'
      elseif p.owner == wid and p.token == argv[at + 1] and p.state ~= 'Q' and p.state ~= 'P' then
        seen[key] = true
        reply = give_up(key, p, at)
      end
    end
    letters[i] = reply
  end
  write_deletions()
  write_requeues()
  tell_nodes(14, events)
end
if entries > 0 then call('XDEL', WS, unpack(argv, 4, 3 + entries)) end
return { 'OK', table.concat(letters) }
