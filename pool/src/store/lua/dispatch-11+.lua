#!lua
-- Accepts jobs: record, payload and one start event for all of them. An id sent again gets its first answer. A job that
-- names its worker is assigned at once, as if a route followed, if the ring is still at the revision of that choice.
-- Then this script mints the token, one for all jobs of a call.
-- KEYS: pool settings jobs payloads queue starts ended outcomes schedules planned owners, then the stream of each
--       worker named
-- ARGV: inc, plan, its schedule's id and the caller's term, or three times '', the ring's revision, count of workers,
--       wid*, count of hashes, hash*, a byte per job: which hash is that of its bytes, 0 none; a byte per job: which
--       worker it has, 0 the router's to find; then key*, id*, not_after*, payload*
-- Returns: OK, a letter per job, A accepted | E exists | B full | T ended | C conflict | O ended with an outcome |
--          L late | R recovering | Z shutting down | N no tokens are left | X bad argument, record or entry of the id;
--          then an outcome per O. STALETERM
--@base
--@guard
--@clock
--@settings
--@records
--@outcome
--@term
--@tokens
local head, refusal = guard(true, 'token')
if not head then return refusal end
local plan = argv[2]
if plan ~= '' and not is_turn('s:' .. plan, argv[3], argv[4]) then return { 'STALETERM' } end
local flag, max_queued, route_ms, assign_ms, late_ms, payload_max =
  settings('max_queued', 'route_timeout', 'assign_timeout', 'max_dispatch_deadline', 'payload_max')
local workers = tonumber(argv[6])
local of_hashes = 7 + workers
local base = of_hashes + argv[of_hashes] + 2
local n, hash_of, worker_of = (#argv - base) / 4, argv[base - 1], argv[base]
local of_ids, of_ends, of_payloads = base + n, base + 2 * n, base + 3 * n
local stored = call('HMGET', JOBS, unpack(argv, base + 1, of_ids))
local ended = call('ZMSCORE', ENDED, unpack(argv, of_ids + 1, of_ends))
local queued, t, tokens_left = tonumber(head[5]) or 0, now(), has_tokens(head[7])
-- Of those that are there alone some have not begun: a count that is damaged fills no pool.
if queued >= max_queued and queued > call('HLEN', JOBS) then
  queued = call('HLEN', JOBS)
  call('HSET', POOL, 'queued', queued)
end
local latest, ts, places = t + late_ms, num(t), plan == '' and head[3] == argv[5]
local front, back = '1|Q||0|0|0|' .. ts .. '|', '|' .. ts .. '||0|' .. plan
local due, due_begun, token = nil, nil, nil
local out, letters, records, payloads, scores, starts = { 'OK', '' }, {}, {}, {}, {}, {}
local entries, outcomes, accepted, planned, owned, events, k = {}, {}, {}, {}, {}, {}, 0

for i = 1, n do
  local key, id, not_after = argv[base + i], argv[of_ids + i], tonumber(argv[of_ends + i])
  local payload = argv[of_payloads + i]
  local letter
  repeat -- once: `break` answers
    local dot, name = match(id, '^[0-9A-Za-z_:-]+()%.!?()[0-9A-Za-z_:.-]+$')
    if not dot or dot > 65 or #id - name > 63 or not not_after or #key == 0 or #key > 512 or #payload > payload_max then
      letter = 'X'
      break
    end
    local own, hash = name - dot == 2 and sub(id, name), nil
    if own then
      local of = byte(hash_of, i)
      hash = of > 0 and argv[of_hashes + of] or ''
      local entry = entries[own]
      if entry == nil then entry = known(own) end
      if entry == false then letter = 'X' break end
      if entry then
        if not stands_for(entry, key, hash) then letter = 'C' break end
        out[#out + 1] = entry.outcome
        letter = entry.outcome and 'O' or 'A'
        break
      end
    end
    local r = accepted[key] or stored[i]
    if r then
      local p = parse(r)
      letter = not p and 'X' or same(p.id, id) and 'A' or p.state == 'P' and 'P' or 'E'
      break
    end
    if ended[i] then letter = 'T' break end
    if flag then letter = 'Z' break end
    if not_after < t or not_after > latest then letter = 'L' break end
    if head[2] == 'R' then letter = 'R' break end
    if queued >= max_queued then letter = 'B' break end
    if not tokens_left then letter = 'N' break end
    letter = 'A'
    local a, b = k + 1, k + 2
    k = b
    local x = places and byte(worker_of, i) or 0
    if x > 0 and x <= workers then
      -- The shared data of a worker's jobs: its start event, and the beginnings of their records and of their names
      -- among the owners.
      local event = events[x]
      if not event then
        token, due_begun = token or num(call('HINCRBY', POOL, 'token', 1)), due_begun or num(t + assign_ms)
        local wid = argv[6 + x]
        event = { 't', token, n = 2, front = '1|A|' .. wid .. '|' .. token .. '|0|0|' .. ts .. '|', member = wid .. ':' }
        events[x] = event
      end
      r = event.front .. id .. back
      scores[a], scores[b] = due_begun, key
      owned[#owned + 1] = '0'
      owned[#owned + 1] = event.member .. key
      event[event.n + 1], event[event.n + 2] = 's', key
      event.n = event.n + 2
    else
      due = due or num(t + route_ms)
      r = front .. id .. back
      scores[a], scores[b] = due, key
      starts[#starts + 1] = 's'
      starts[#starts + 1] = key
    end
    accepted[key] = r
    queued = queued + 1
    records[a], records[b] = key, r
    payloads[a], payloads[b] = key, payload
    if plan ~= '' then planned[a], planned[b] = '0', plan .. '|' .. key end
    if own then
      local entry = { key = key, hash = hash, gen = id, at = t, v = OWN_VERSION }
      entries[own] = entry
      outcomes[#outcomes + 1] = own
      outcomes[#outcomes + 1] = cmsgpack.pack(entry)
    end
  until true
  letters[i] = letter
end
if k > 0 then
  call('HSET', PAYLOADS, unpack(payloads))
  call('ZADD', QUEUE, unpack(scores))
  if plan ~= '' then call('ZADD', PLANNED, unpack(planned)) end
  if #starts > 0 then call('XADD', STARTS, '*', unpack(starts)) end
  if token then
    call('ZADD', OWNERS, unpack(owned))
    for x, event in pairs(events) do call('XADD', KEYS[11 + x], '*', unpack(event, 1, event.n)) end
  end
  -- The records come last: with a key of another type above, none is accepted without all that belongs to it. The rest was
  -- read before, and is of its type.
  call('HSET', JOBS, unpack(records))
  if #outcomes > 0 then call('HSET', OUTCOMES, unpack(outcomes)) end
  count('queued', k / 2)
end
out[2] = table.concat(letters)
return out
