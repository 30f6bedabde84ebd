#!lua flags=allow-oom
-- Requests the end of jobs, each named with its dispatch. What nobody runs is deleted; an owner is told by its stream.
-- KEYS: m cf jo jp bw q pk je jn tb od sc pi, then the ws of each worker named
-- ARGV: inc, plan, its schedule's id and the caller's term, or three times '', repeat 0|1 (the sweeper says it
--       again), waiting node or '', count of workers, wid*, then (key, id, index of the worker guessed or
--       0, 1 if a dispatch that is not there is never to be accepted)*
-- Returns: OK, a letter per job, D deleted | S stopping | N no such job, or not the plan's | T ended before |
--          R recovering | M the guess is wrong, nothing done | X bad record, or entry of the id;
--          then the owner per M. STALETERM
--@base
--@guard
--@clock
--@settings
--@records
--@outcome
--@delete
--@term
local head, refusal = guard(true)
if not head then return refusal end
local plan = argv[2]
if plan ~= '' and not is_turn('s:' .. plan, argv[3], argv[4]) then return { 'STALETERM' } end
local _, late_ms, od_ms, stop_ms = settings('late_ms', 'od_ms', 'stop_ms')
local recovering, again, waiting, workers = head[2] == 'R', argv[5] == '1', argv[6], tonumber(argv[7])
local base = 7 + workers
local n = (#argv - base) / 4
local keys = {}
for i = 1, n do keys[i] = argv[base + 4 * i - 3] end
local stored, t = call('HMGET', JO, unpack(keys)), now()
local out, letters, jobs, records, scores, events = { 'OK', '' }, {}, {}, {}, {}, {}

-- What is looked at of a job that runs.
local pattern = '^1|([QARSP])|(%d*)|(%d+)|%d+|[012]|%d+|(' .. ID .. ')|%d+|%d*|%d+|([^|]*)'
local function view(r)
  local state, owner, token, id, of_plan = match(r, pattern)
  return state and { record = r, state = state, owner = owner, token = token, id = id, plan = of_plan } or 'bad'
end
for i = 1, n do jobs[keys[i]] = stored[i] and view(stored[i]) or nil end

local function tell_owner(x, key, p)
  local event = events[x] or { 'w', waiting }
  events[x] = event
  local j = #event
  event[j + 1], event[j + 2], event[j + 3], event[j + 4] = 'x', key, 't', p.token
  event[j + 5], event[j + 6] = 'i', p.id
end

-- No job of this dispatch is there: it has ended, or was never accepted, and from now on is not if that is wanted.
local function absent(key, id, p, forbid)
  local own = match(id, '%.!(.+)$')
  local entry = own and known(own)
  if own and entry == false then return 'X' end
  if call('ZSCORE', TB, id) or entry and entry.key == key and entry.outcome then return 'T' end
  if not p and recovering then return 'R' end
  if forbid and not own then
    call('ZADD', TB, t + late_ms, id)
  elseif forbid and entry == nil then
    call('HSET', OD, own, cmsgpack.pack({ key = key, hash = '', gen = id, outcome = 'cancelled', v = OWN_VERSION }))
    call('ZADD', TB, t + od_ms, '!' .. own)
  end
  return 'N'
end

local function answer(key, id, guess, forbid)
  local p = jobs[key]
  if p == 'bad' then return 'X' end
  if not p or not same(p.id, id) then
    write_deletions()
    return absent(key, id, p, forbid)
  end
  if plan ~= '' and p.plan ~= plan then return 'N' end
  local owned = p.state == 'R' or p.state == 'S'
  if recovering and not owned then return 'R' end -- it may be running, not known yet
  if not owned then
    delete(key, parse(p.record), t, forbid and 'cancelled' or 'stopped', late_ms, od_ms)
    jobs[key] = nil
    return 'D'
  end
  if guess == 0 or argv[7 + guess] ~= p.owner then
    out[#out + 1] = p.owner
    return 'M'
  end
  if not p.told and (p.state == 'R' or again) then
    if p.state == 'R' then
      p.state = 'S'
      records[#records + 1] = key
      records[#records + 1] = '1|S' .. sub(p.record, 4)
    end
    p.told = true
    scores[#scores + 1] = t + stop_ms
    scores[#scores + 1] = key
    tell_owner(guess, key, p)
  end
  return 'S'
end

for i = 1, n do
  local at = base + 4 * i - 3
  letters[i] = answer(keys[i], argv[at + 1], tonumber(argv[at + 2]), argv[at + 3] == '1')
end
write_deletions()
if #records > 0 then call('HSET', JO, unpack(records)) end
if #scores > 0 then call('ZADD', Q, unpack(scores)) end
for x, event in pairs(events) do call('XADD', KEYS[13 + x], '*', unpack(event)) end
out[2] = table.concat(letters)
return out
