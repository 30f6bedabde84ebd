#!lua
-- Accepts jobs: record, payload and one start event for all of them. An id sent again gets its first answer. A job that
-- names its worker is assigned at once, as if a route followed, if the ring is still at the revision of that choice.
-- Then this script mints the token, one for all jobs of a call. Such a job is granted if its payload is short, and no checkpoint
-- is left of a former job of its key. A record of a granted job says that the worker runs the job. The event has the payload.
-- KEYS: pool settings jobs payloads queue starts ended outcomes schedules planned owners notifications checkpoints, then the
--       stream of each worker named
-- ARGV: inc, plan, its schedule's id and the caller's term, or three times '', the ring's revision, count of workers,
--       wid*, count of hashes, hash*, a byte per job: which hash is that of its bytes, 0 none; a byte per job: which
--       worker it has, 0 the router's to find; a letter per job: B somebody waits for its start | b nobody does; then key*, id*,
--       not_after*, payload*
-- Returns: OK, a letter per job: A accepted | E exists | P exists and is parked | Y exists and is paused | B full |
--          T ended | C conflict | O ended with an outcome | L late | R recovering |
--          Z shutting down | N no tokens are left | X bad argument, record or entry of the id; then an outcome per O.
--          STALETERM
--@base
--@guard
--@clock
--@settings
--@records
--@paused
--@outcome
--@term
--@tokens
--@grants
--@accept
local head, refusal = guard(true, 'token')
if not head then return refusal end
local plan = argv[2]
if plan ~= '' and not is_turn('s:' .. plan, argv[3], argv[4]) then return { 'STALETERM' } end
local flag, max_queued, route_ms, assign_ms, late_ms, payload_max, grant_bytes =
  settings('max_queued', 'route_timeout', 'assign_timeout', 'max_dispatch_deadline', 'payload_max', 'grant_max')
local workers = tonumber(argv[6])
local of_hashes = 7 + workers
local base = of_hashes + argv[of_hashes] + 3
local n, hash_of, worker_of, awaited = (#argv - base) / 4, argv[base - 2], argv[base - 1], argv[base]
local of_ids, of_ends, of_payloads = base + n, base + 2 * n, base + 3 * n
local stored = call('HMGET', JOBS, unpack(argv, base + 1, of_ids))
local ended = call('ZMSCORE', ENDED, unpack(argv, of_ids + 1, of_ends))
local queued, t, tokens_left = queued_of(head[5], max_queued), now(), has_tokens(head[7])
local latest, places = t + late_ms, plan == '' and head[3] == argv[5]
begin_accepting(t, route_ms, assign_ms, plan)
local noted = {}
if places and grant_bytes > 0 then
  begin_granting(grant_bytes, base, of_ids)
  noted = headers_of(NOTIFICATIONS, base, of_ids)
end
local out, letters, entries, outcomes, planned = { 'OK', '' }, {}, {}, {}, {}

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
      letter = not p and 'X' or same(p.id, id) and 'A' or p.state == 'P' and (is_paused(p) and 'Y' or 'P') or 'E'
      break
    end
    if ended[i] then letter = 'T' break end
    if flag then letter = 'Z' break end
    if not_after < t or not_after > latest then letter = 'L' break end
    if head[2] == 'R' then letter = 'R' break end
    if queued >= max_queued then letter = 'B' break end
    if not tokens_left then letter = 'N' break end
    letter = 'A'
    local x = places and byte(worker_of, i) or 0
    if x > workers then x = 0 end
    local wid, news = argv[6 + x], sub(awaited, i, i)
    if noted[i] then news = news == 'B' and 'N' or 'n' end
--@accept_one
    queued = queued + 1
    if plan ~= '' then
      planned[#planned + 1] = '0'
      planned[#planned + 1] = plan .. '|' .. key
    end
    if own then
      local entry = { key = key, hash = hash, gen = id, at = t, v = OWN_VERSION }
      entries[own] = entry
      outcomes[#outcomes + 1] = own
      outcomes[#outcomes + 1] = cmsgpack.pack(entry)
    end
  until true
  letters[i] = letter
end
if #planned > 0 then call('ZADD', PLANNED, unpack(planned)) end
write_accepted(13)
if #outcomes > 0 then call('HSET', OUTCOMES, unpack(outcomes)) end
out[2] = table.concat(letters)
return out
