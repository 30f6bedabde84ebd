#!lua flags=allow-oom
-- Requests the end of jobs, each named with its dispatch. A job that nobody runs is deleted; an owner learns of the
-- stop from its stream.
-- KEYS: pool settings jobs payloads owners queue parked errors notifications checkpoints ended outcomes schedules
--       planned workers, then the stream of each worker named
-- ARGV: inc, plan, its schedule's id and the caller's term, or three times '', repeat 0|1 (the sweeper says it
--       again), waiting node or '', count of workers, '' or a letter per job, 1 if its dispatch is never to be
--       accepted when it is not there; a byte per job: which worker is guessed, 0 none; wid*, then key*, id*
-- Returns: OK, a letter per job: D deleted | S stopping | N no such job, or not the plan's | T ended before |
--          R recovering | M the guess is wrong, nothing done | X bad record, or entry of the id |
--          L nothing done, because the call has deleted a page of notifications.
--          Then the owner per M. STALETERM
--@base
--@guard
--@clock
--@settings
--@records
--@confirm
--@outcome
--@run_ends
--@notes
--@delete
--@term
--@send
local head, refusal = guard(true)
if not head then return refusal end
local plan = argv[2]
if plan ~= '' and not is_turn('s:' .. plan, argv[3], argv[4]) then return { 'STALETERM' } end
local _, late_ms, retention_ms, stop_ms = settings('max_dispatch_deadline', 'outcome_retention', 'stop_retry')
local recovering, again, waiting, workers = head[2] == 'R', argv[5] == '1', argv[6], tonumber(argv[7])
local forbids, guess_of, base = argv[8], argv[9], 9 + workers
local n = (#argv - base) / 2
local of_ids = base + n
local stored, t = call('HMGET', JOBS, unpack(argv, base + 1, of_ids)), now()
local due = num(t + stop_ms)
local out, letters, records, scores, events = { 'OK', '' }, {}, {}, {}, {}
-- The records of jobs whose owners are told as this call leaves them; false for jobs that are deleted.
local told = {}

-- The state, the owner and the token, and the id and the plan: given only where they are not what was named.
local front = '^1|([QARSP])|(%d*)|(%d+)|%d+|[012]|%d+|()'
local pattern = front .. '(' .. ID .. ')|%d+|%d*|%d+|([^|]*)'
local function view(r, id)
  local state, owner, token, at = match(r, front)
  if at and plan == '' and find(r, id, at, true) == at and find(r, '^|%d+|%d*|%d+|', at + #id) then
    return state, owner, token, at, id, ''
  end
  return match(r, pattern)
end

-- The shared data of a worker's jobs.
local function event_for(x)
  local event = { 'w', waiting, n = 2, owner = x > 0 and argv[9 + x] }
  events[x] = event
  return event
end

-- No job of this dispatch is there: it has ended, or was never accepted, and from now on is not if that is wanted.
local function absent(key, id, another, forbid)
  local own = match(id, '%.!(.+)$')
  local entry = own and known(own)
  if own and entry == false then return 'X' end
  -- The memory of a caller's id may be that of a former use. The last one may run, unknown to the store.
  if own and recovering and not another then return 'R' end
  if call('ZSCORE', ENDED, id) or entry and entry.key == key and entry.outcome then
    if recovering and ended_by_run(id) then return 'R' end -- a later run may not be known yet
    end_for_good(id)
    return 'T'
  end
  if not another and recovering then return 'R' end
  if forbid and not own then
    call('ZADD', ENDED, t + late_ms, id)
  elseif forbid and entry == nil then
    local entry = { key = key, hash = '', gen = id, outcome = 'cancelled', at = t, v = OWN_VERSION }
    call('HSET', OUTCOMES, own, cmsgpack.pack(entry))
    call('ZADD', ENDED, t + retention_ms, '!' .. own)
  end
  return 'N'
end

local function answer(i)
  local key, id = argv[base + i], argv[of_ids + i]
  local r = told[key]
  if r == nil then r = stored[i] end
  local state, owner, token, _, its, of_plan
  if r then
    state, owner, token, _, its, of_plan = view(r, id)
    if not state then return 'X' end
  end
  if not r or its ~= id and not same(its, id) then
    write_deletions()
    return absent(key, id, r, byte(forbids, i) == 49)
  end
  if plan ~= '' and of_plan ~= plan then return 'N' end
  local owned = state == 'R' or state == 'S'
  if recovering and not owned then return 'R' end -- it may be running, not known yet
  if not owned then
    if is_full() then return 'L' end
    local p = parse(r)
    if not p then return 'X' end
    delete(key, p, t, byte(forbids, i) == 49 and 'cancelled' or 'stopped', late_ms, retention_ms)
    told[key] = false
    return 'D'
  end
  local x = byte(guess_of, i)
  local event = events[x] or event_for(x)
  if event.owner ~= owner then
    out[#out + 1] = owner
    return 'M'
  end
  if not told[key] and (state == 'R' or again or waiting ~= '') then
    if state == 'R' then
      local stopped, granted = gsub(r, '^1|R(|%d+|%d+|%d+|)0|', '1|S%11|', 1)
      if granted == 1 then confirmed = confirmed + 1 end
      r = granted == 1 and stopped or gsub(r, '^1|R', '1|S', 1)
      local k = #records
      records[k + 1], records[k + 2] = key, r
    end
    told[key] = r
    local k, j = #scores, event.n
    scores[k + 1], scores[k + 2] = due, key
    event[j + 1], event[j + 2], event[j + 3], event[j + 4] = 'x', key, 't', token
    event[j + 5], event[j + 6], event.n = 'i', its, j + 6
  end
  return 'S'
end

for i = 1, n do letters[i] = answer(i) end
write_deletions()
write_confirmed()
if #records > 0 then call('HSET', JOBS, unpack(records)) end
if #scores > 0 then call('ZADD', QUEUE, unpack(scores)) end
for x, event in pairs(events) do
  if event.n > 2 then send(KEYS[15 + x], event) end
end
out[2] = table.concat(letters)
return out
