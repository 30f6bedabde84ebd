#!lua flags=allow-oom
-- The end of workers: the counter of each, 0 if it is lost, has not moved for its time to live, or it leaves itself and
-- nothing of it runs. All of them are out before their slots are handed off: to the oldest standbys, or, where nobody
-- else is up, all standbys take slots. Their jobs wait for reap. A worker with a counter and no entry has lost its
-- entry: nodes that still know the entry drop it.
-- What nodes without a member have said of themselves is forgotten.
-- KEYS: pool workers heartbeats expired nodes changes
-- ARGV: inc, (wid, counter observed or '' (it leaves itself))*
-- Returns: OK, a letter per worker, D expired, now or before | G gone | R renewed
-- Publishes: workers, in one change their entries and those of who takes slots and, when the ring grows, its size
--@base
--@guard
--@clock
--@ring
--@living
--@seats
--@change
local head, refusal = guard(true)
if not head then return refusal end
local wids = {}
for i = 2, #argv, 2 do wids[#wids + 1] = argv[i] end
local entries, beats = call('HMGET', WORKERS, unpack(wids)), call('HMGET', HEARTBEATS, unpack(wids))
local buried, t = call('HMGET', EXPIRED, unpack(wids)), now()
local letters, changes, gone, dead, ending, free = {}, {}, {}, {}, {}, {}

-- A counter as observers read it: one that is lost, or no number, is 0.
local function counted(text)
  local digits = match(text or '', '^%+?(%d+)$')
  local n = digits and match(digits, '^0*(.+)$')
  return n and (#n < 20 or #n == 20 and n <= '18446744073709551615') and n or '0'
end

local function answer(i, wid, observed)
  local entry = entries[i]
  if ending[wid] or not entry and buried[i] then return 'D' end
  if not entry and (observed == '' or not beats[i]) then return 'G' end
  -- When it was heard of last: now, if it speaks for itself.
  local heard = observed == '' and num(t) or counted(beats[i])
  if observed ~= '' and heard ~= observed then return 'R' end
  local slot = match(entry or '', '^[UG]|(%d+)|')
  ending[wid] = true
  local k, j = #gone, #dead
  gone[k + 1], changes[2 * k + 1], changes[2 * k + 2] = wid, wid, false
  dead[j + 1], dead[j + 2] = wid, heard .. '|' .. (slot or '')
  if slot and byte(entry) == 85 and tonumber(slot) < 65536 then free[#free + 1] = tonumber(slot) end
  return 'D'
end

-- Forgets what nodes without a member have said.
local function forget_nodes()
  local said, living, over = redis.pcall('HKEYS', NODES), {}, {}
  if said.err or #said == 0 then return end
  for _, entry in ipairs(call('HVALS', WORKERS)) do
    local node = match(entry, '^%u|[^|]*|[^|]*|[^|]*|([^|]*)|')
    if node then living[node] = true end
  end
  for _, node in ipairs(said) do
    if not living[node] then over[#over + 1] = node end
  end
  for i = 1, #over, 256 do call('HDEL', NODES, unpack(over, i, math.min(i + 255, #over))) end
end

for i, wid in ipairs(wids) do letters[i] = answer(i, wid, argv[2 * i + 1]) end
if #free > 0 then
  local used, _, _, _, all = ring(ending)
  local up, waiting = living(all, t, ending)
  if up == 0 and next(waiting) then seat_all(changes, used, waiting) else hand_off(changes, used, free, all, ending) end
end
if #gone > 0 then
  call('HDEL', HEARTBEATS, unpack(gone))
  call('HSET', EXPIRED, unpack(dead))
  mapput('workers', WORKERS, POOL, 'workers_revision', CHANGES, argv[1], changes)
  forget_nodes()
end
return { 'OK', table.concat(letters) }
