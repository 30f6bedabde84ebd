#!lua flags=allow-oom
-- In phase R, a living worker says what it runs, what has ended in its hands and what it has handed off. A runner always
-- gets a record that names it, unless another worker owns the key under a higher token. A worker that the data do not
-- know is a member again, under its old id, in its old slot when that is free.
-- KEYS: pool workers heartbeats expired settings jobs payloads owners queue parked errors notifications checkpoints
--       starts ended outcomes planned changes
-- ARGV: inc, wid, its entry in workers, then per job (kind, key, token, id, begun, attempts, created, plan or '',
--       1 if the payload follows else 0, payload or '', generation of the payload that it runs with or 0).
--       A kind: r it runs | e it has ended | h it was handed off.
--       e has its outcome or '' in place of the payload. A record with a higher generation than the one named goes on: for
--       that it has begun, and in place of the plan mode and why, as h. In place of the 1 or 0 it has the reason of a parking or ''.
--       Without mode and why it is an end whatever the payload and the run; else a run under a higher token goes on.
--       h has the attempts that it was left with. In place of created it has the ms that it must wait. In place of the
--       plan it has the mode of its release h|b|r|e|q|p and the letter why. In place of the payload it has the reason
--       of its parking or ''.
-- Returns: OK, then per job K kept | P send its payload | S must stop | O outranked | E ended | Q queued or parked |
--          G handed off and gone | - nothing done | X bad record or item | L untouched: enough notifications were
--          deleted. NORMAL | FENCED | BADARG
-- Publishes: workers, one entry and, when the ring grows, its size
--@base
--@guard
--@clock
--@settings
--@records
--@outcome
--@run_ends
--@generation
--@notes
--@delete
--@paused
--@requeue
--@why
--@elsewhere
--@ring
--@tokens
--@change
local head, refusal = guard(true, 'token')
if not head then return refusal end
if head[2] ~= 'R' then return { 'NORMAL' } end
local wid = argv[2]
if call('HEXISTS', EXPIRED, wid) == 1 then return { 'FENCED' } end
local member, wanted, rest, meta, address = match(argv[3],
  '^([UPG])|([%d-]+)(|%d+|[%w_:.-]+|[%w_:-]+|([%w_:.-]*)|%d+|([!-{}~]*))$')
if not member or #meta > 64 or #address > 128 then return { 'BADARG' } end
local n = (#argv - 3) / 11

-- Whether what is said from here on is something that a record may say.
local function is_sound(at)
  local numbers = table.concat({ argv[at + 2], argv[at + 4], argv[at + 5], argv[at + 6], argv[at + 10] }, '|')
  local name = argv[at + 7]
  return match(numbers, '^%d+|[012]|%d+|%d+|%d+$') and #argv[at + 10] <= 15 and tonumber(argv[at + 2]) <= LAST_TOKEN and match(argv[at + 3], '^' .. ID .. '$') and (name == '' or is_name(name))
    and (argv[at] ~= 'h' or match(name, '^[hbreqp]%l$')) and (argv[at] ~= 'e' or name == '' or match(name, '^[hp]%l$'))
end
local _, late_ms, retention_ms, stop_ms, route_ms, max_attempts =
  settings('max_dispatch_deadline', 'outcome_retention', 'stop_retry', 'route_timeout', 'max_attempts')
local t = now()
local ts = num(t)

-- A caller's id that was forgotten is known again, and so is one of which the data know a former use only; what it stood
-- for is not. `goes_on`: nor is its end.
local function know(key, id, created, goes_on)
  local own = match(id, '%.!(.+)$')
  local entry = own and known(own)
  local is_over = entry and (is_former(entry, created) or goes_on and entry.outcome ~= 'ok')
  if own and (entry == nil or is_over) then
    entry = { key = key, hash = '', gen = id, at = tonumber(created) or t, v = OWN_VERSION }
    call('HSET', OUTCOMES, own, cmsgpack.pack(entry))
    call('ZREM', ENDED, '!' .. own)
  end
end

-- Whether the dispatch is remembered as one that has ended, or must not run. `created`: when it was accepted, if known.
local function has_ended(key, id, created)
  local lasts = call('ZSCORE', ENDED, id)
  -- A dispatch that was accepted later is another use of a caller's id.
  if lasts and (created == nil or tonumber(created) <= tonumber(lasts)) then return true end
  local own = match(id, '%.!(.+)$')
  local entry = own and known(own)
  local has_outcome = entry and entry.key == key and entry.outcome and entry.outcome ~= 'ok'
  return has_outcome and not is_former(entry, created)
end

local function higher(a, b) return tonumber(a) > tonumber(b) and a or b end

local function runs(key, p, token, id, begun, attempts, created, plan, sent, payload, generation)
  local ended, mine = has_ended(key, id, created), p and same(p.id, id)
  -- An earlier run of it has ended, which had not heard of this one.
  local goes_on = ended and (ended_by_run(id, created) or token) < token
  ended = ended and not goes_on
  if p and tonumber(p.token) > token and (p.owner ~= '' or not mine) then return 'O' end
  -- Given up since it was attested: this came late, or twice.
  if mine and p.owner == '' and p.ainc == argv[1] and tonumber(p.token) >= token then return '-' end
  -- Accepted since this one has ended: nobody has it yet.
  if ended and p and not mine and p.owner == '' then return 'E' end
  local known, behind = generation_of(mine and p.tail or '')
  local newer = tonumber(generation) > known -- the data went back to before an update
  local lacks = not mine or newer or call('HEXISTS', PAYLOADS, key) == 0
  if lacks and not ended and sent == '0' then return 'P' end
  if p and not mine then
    delete(key, p, t, 'ended', late_ms, retention_ms)
    write_deletions()
  end
  local begun_here = false
  if mine then
    if p.owner ~= '' then call('ZREM', OWNERS, p.owner .. ':' .. key) end
    if p.state == 'P' then call('ZREM', PARKED, key) end
    redis.pcall('HDEL', ERRORS, key)
    if p.begun == '0' then count('queued', -1) end
    begun_here = (p.state == 'R' or p.state == 'S') and p.owner == wid and tonumber(p.token) == token
    if not begun_here then p.since = ts end
    if lacks and sent == '1' then
      call('HSET', PAYLOADS, key, payload)
      -- The record says which payload it has, also if a later one is lost.
      if tonumber(generation) ~= known then p.tail = '|' .. num(generation) .. behind end
    end
  else
    local tail = newer and '|' .. num(generation) or ''
    p = { owner = '', begun = '1', attempts = '0', since = ts, id = id, created = created, strikes = '0', plan = plan, tail = tail }
    call('HSET', PAYLOADS, key, payload)
    if plan ~= '' then call('ZADD', PLANNED, 0, plan .. '|' .. key) end
  end
  if not begun_here then because(p, 'a') end
  local stops = ended or p.state == 'S'
  p.state, p.owner, p.token, p.ainc = stops and 'S' or 'R', wid, num(token), argv[1]
  p.begun, p.attempts = higher(higher(p.begun, begun), '1'), higher(p.attempts, attempts)
  call('HSET', JOBS, key, pack(p))
  call('ZADD', OWNERS, 0, wid .. ':' .. key)
  if stops then call('ZADD', QUEUE, t + stop_ms, key) else call('ZREM', QUEUE, key) end
  goes_on = goes_on and not stops
  know(key, p.id, created, goes_on)
  if goes_on then
    call('ZREM', ENDED, id, run_field(id))
    end_for_good(id)
  end
  if p.begun == '2' then settle(p.id, 'ok', t, retention_ms) end
  return stops and 'S' or 'K'
end

local function handed_off(key, p, token, id, begun, attempts, delay, name, reason)
  if not p then return has_ended(key, id, nil) and '-' or 'G' end
  local mode = sub(name, 1, 1)
  if not same(p.id, id) or p.owner == '' or tonumber(p.token) > token then return '-' end
  if p.begun == '0' then count('queued', -1) end
  p.begun = higher(higher(p.begun, begun), '1')
  if p.begun == '2' then settle(p.id, 'ok', t, retention_ms) end
  if p.state == 'S' then
    delete(key, p, t, 'stopped', late_ms, retention_ms)
    write_deletions()
    return 'E'
  end
  p.attempts = attempts
  redis.pcall('HDEL', ERRORS, key)
  if mode == 'e' then elsewhere(p, 1) elseif mode == 'r' then p.strikes = num(p.strikes + 1) elseif mode == 'h' or mode == 'b' then p.strikes = '0' end
  because(p, sub(name, 2))
  requeue(key, p, t, math.min(tonumber(delay), 240000), route_ms, mode == 'p' and 0 or max_attempts, reason)
  write_requeued()
  return 'Q'
end

local function ended(key, p, token, id, begun, name, reason, outcome, ran)
  if p and not same(p.id, id) then p = nil end
  if p and p.owner ~= '' and tonumber(p.token) > token then return '-' end
  -- It has ended with a payload that was replaced, and its worker had not heard of that: it goes on, as after a release.
  if p and p.state ~= 'S' and generation_of(p.tail) > tonumber(ran) then
    return handed_off(key, p, token, id, begun, '0', '0', name, reason)
  end
  if p then id = p.id end
  local at, before = math.max(t, p and p.created or 0), ended_by_run(id)
  if name == '' or p and p.state == 'S' then
    if before then end_for_good(id) end
  elseif before or not has_ended(key, id, p and p.created) then
    end_by_run(id, math.max(before or 0, token), at, at + late_ms)
  end
  know(key, id, nil)
  if outcome == '' then outcome = 'ended' end
  if p then
    delete(key, p, t, outcome, late_ms, retention_ms)
    write_deletions()
  end
  settle(id, outcome, t, retention_ms)
  call('ZADD', ENDED, at + late_ms, id)
  return 'E'
end

if call('HEXISTS', WORKERS, wid) == 0 then
  local slot, entry = tonumber(wanted), argv[3]
  if member ~= 'G' and (not slot or slot >= 65536 or ring()[slot]) then
    slot, entry = nil, 'P|-' .. rest
  elseif member ~= 'G' then
    entry = 'U|' .. wanted .. rest
  end
  local changes = { wid, entry }
  grow(changes, member ~= 'G' and slot or 0)
  call('HSET', HEARTBEATS, wid, 1)
  mapput('workers', WORKERS, POOL, 'workers_revision', CHANGES, argv[1], changes)
end
local out, top = { 'OK' }, seen_token(wid)
for i = 1, n do
  local at = 11 * i - 7
  local kind, key, token, id = argv[at], argv[at + 1], tonumber(argv[at + 2]), argv[at + 3]
  local later = is_full()
  local sound = not later and is_sound(at)
  local r = sound and call('HGET', JOBS, key)
  local p = r and parse(r) or nil
  if sound then top = math.max(top, token) end
  if later then
    out[i + 1] = 'L'
  elseif not sound or r and not p then
    out[i + 1] = 'X'
  elseif kind == 'r' then
    out[i + 1] = runs(key, p, token, id, unpack(argv, at + 4, at + 10))
  elseif kind == 'e' then
    out[i + 1] = ended(key, p, token, id, argv[at + 4], unpack(argv, at + 7, at + 10))
  else
    out[i + 1] = handed_off(key, p, token, id, argv[at + 4], argv[at + 5], argv[at + 6], argv[at + 7], argv[at + 9])
  end
end
raise(head[7], top)
write_requeues()
return out
