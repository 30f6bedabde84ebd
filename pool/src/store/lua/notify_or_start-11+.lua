#!lua
-- Keeps notifications with their jobs, as notify does. A job that is not there is accepted, as dispatch does, together with
-- its first notification. An id sent again, of a job that it has started, keeps nothing a second time.
-- KEYS: pool settings jobs payloads queue starts ended owners notifications workers checkpoints, then the stream of each worker
--       named
-- ARGV: inc, the ring's revision, count of workers, a byte per notification: which worker is guessed to be the owner, 0
--       none; a byte per notification: which worker gets a new job, 0 the router's to find; wid*, then key*, id*,
--       not_after*, payload*, body*
-- Returns: OK, a letter per notification: K kept | A accepted with its job, now or before |
--          T accepted before, and ended | B the job's bound is reached | S it is being stopped |
--          M the guess is wrong, nothing done | F the queue is full | L late | R recovering | Z shutting down | N no tokens are left | X bad argument or record; then the owner per M
--@base
--@guard
--@clock
--@settings
--@records
--@notes
--@tokens
--@send
--@keep
--@grants
--@accept
local head, refusal = guard(true, 'token')
if not head then return refusal end
local flag, max_queued, route_ms, assign_ms, late_ms, payload_max, most, most_bytes, grant_bytes = settings('max_queued',
  'route_timeout', 'assign_timeout', 'max_dispatch_deadline', 'payload_max', 'notify_cap', 'notify_bytes', 'grant_max')
local workers, guess_of, worker_of = tonumber(argv[3]), argv[4], argv[5]
local base = 5 + workers
local n = (#argv - base) / 5
local of_ids, of_ends, of_payloads, of_bodies = base + n, base + 2 * n, base + 3 * n, base + 4 * n
local headers = {}
for i = 1, n do headers[i] = 'h:' .. argv[base + i] end
local stored = call('HMGET', JOBS, unpack(argv, base + 1, of_ids))
local ended = call('ZMSCORE', ENDED, unpack(argv, of_ids + 1, of_ends))
local waiting = call('HMGET', NOTIFICATIONS, unpack(headers))
local queued, t, tokens_left = queued_of(head[5], max_queued), now(), has_tokens(head[7])
local latest, places = t + late_ms, head[3] == argv[2]
begin_keeping(call('HGET', POOL, 'notified') or '', most, most_bytes)
begin_accepting(t, route_ms, assign_ms, '')
if places and grant_bytes > 0 then begin_granting(grant_bytes, base, of_ids) end
local out, letters = { 'OK', '' }, {}

-- The letter for a job that is there.
local function notify(i, key, id, r)
  local p = parse(r)
  if not p then return 'X' end
  if p.id == id then return 'A' end
  if p.state == 'S' then return 'S' end
  local x = byte(guess_of, i)
  local owner = p.state == 'R' and p.owner
  local letter = keep(key, waiting[i], argv[of_bodies + i], owner, p.token, x, x > 0 and argv[5 + x])
  if letter == 'M' then out[#out + 1] = owner end
  return letter
end

local function start(i, key, id, payload)
  if ended[i] then return 'T' end
  if flag then return 'Z' end
  local not_after = tonumber(argv[of_ends + i])
  if not_after < t or not_after > latest then return 'L' end
  if head[2] == 'R' then return 'R' end
  if queued >= max_queued then return 'F' end
  if not tokens_left then return 'N' end
  local letter = keep(key, waiting[i], argv[of_bodies + i])
  if letter ~= 'K' then return letter end
  local x = places and byte(worker_of, i) or 0
  local wid, news = argv[5 + x], 'n' -- the notification waits, and nobody waits for the start
--@accept_one
  queued = queued + 1
  return 'A'
end

for i = 1, n do
  local key, id, payload = argv[base + i], argv[of_ids + i], argv[of_payloads + i]
  local dot, name = match(id, '^[0-9A-Za-z_:-]+()%.()[0-9A-Za-z_:.-]+$')
  local r = accepted[key] or stored[i]
  if not dot or dot > 65 or #id - name > 63 or not tonumber(argv[of_ends + i]) or #key == 0 or #key > 512
    or #payload > payload_max then
    letters[i] = 'X'
  else
    letters[i] = r and notify(i, key, id, r) or not r and start(i, key, id, payload)
  end
end
write_kept(11)
write_accepted(11)
out[2] = table.concat(letters)
return out
