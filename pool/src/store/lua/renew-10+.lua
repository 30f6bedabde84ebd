#!lua flags=allow-oom
-- Heartbeat of all workers of a node: a counter that is never behind the clock, ms, so that it also says when it was
-- raised last. Raises the token counter and the floor to what the caller has seen; keeps the node's stream.
-- It keeps what the node says of itself while a worker of these is a member. The answer names the oldest entry of each
-- worker's stream: a worker that has passed over that entry reads the stream again. It also says how many entries were
-- ever added: where that number falls, somebody has deleted the stream, and perhaps news that the worker has not read.
-- In phase N it compares what the keys say of each other: a key that is lost alone is answered, and nothing is renewed.
-- KEYS: pool workers heartbeats settings jobs payloads owners queue parked nodes, then the node's stream if it waits for
--       outcomes, then the stream of each worker
-- ARGV: inc, highest token and highest floor seen by the caller, node or '', what it says of itself or '', 1 to look at the
--       policy of eviction or 0, wid*
-- Returns: OK workers_revision settings_revision flag phase run_id queued opened (1: the node's stream was made) signs
--          policy (or '') token floor, then per worker U | P | G | F (no member), the oldest entry of its stream or '',
--          and how many were added to it.
--          Or LOST signs. A sign is a letter: m members, r records, p payloads, o lists of what workers own. OK has those that a
--          recovery left
--@base
--@guard
--@clock
--@settings
--@tokens
local head, refusal = guard(true, 'token', 'lost')
if not head then return refusal end
local flag, ttl = settings('worker_ttl')

-- Nil for a key of another type: that is no loss, and costs nobody a lease.
local function size(command, key)
  local n = redis.pcall(command, key)
  return type(n) == 'number' and n or nil
end

-- The signs of a loss, and of what a recovery left those that are not known to have healed: sizes may fit by chance.
local function signs(known)
  local jobs, owned, paid, found = size('HLEN', JOBS), size('ZCARD', OWNERS), size('HLEN', PAYLOADS), ''
  local due, parked = size('ZCARD', QUEUE), size('ZCARD', PARKED)
  local function sign(letter, shows, healed)
    if shows or find(known, letter, 1, true) and not healed then found = found .. letter end
  end
  local sized = head[3] == '1' or call('HEXISTS', WORKERS, 'size') == 1
  local all = jobs and owned and due and parked
  sign('m', not sized, sized)
  sign('r', jobs and owned and owned > jobs, all and due == 0 and owned == jobs - parked)
  sign('p', jobs and jobs > 0 and paid == 0, jobs and paid == jobs)
  sign('o', all and owned == 0 and jobs > due + parked, all and jobs <= math.max(owned, due) + parked)
  return found
end

-- One that a recovery was made for is no sign of another loss, until it has gone.
-- Those of a newer version stay.
local known = match(head[8] or '', '^%l*$') or ''
if head[2] ~= 'R' then
  local found = signs(known) .. (gsub(known, '[mrpo]', ''))
  if gsub(found, '[' .. known .. '-]', '') ~= '' then return { 'LOST', found } end
  if found ~= (head[8] or '') then
    if found == '' then call('HDEL', POOL, 'lost') else call('HSET', POOL, 'lost', found) end
  end
  known = found
end
local highest = raise(head[7], seen_token(argv[2]))
local floor, seen = level_of(head[6]), level_of(argv[3])
if seen > floor and seen <= LEVEL then
  floor = seen
  call('HSET', POOL, 'floor', num(floor))
end
-- The server that answers, and, if it was promoted, since when. The memory costs more than both.
local asked = argv[6] == '1'
local facts = asked and call('INFO', 'server', 'replication', 'memory') or call('INFO', 'server', 'replication')
local server, before = match(facts, 'run_id:(%w+)') or '', match(facts, 'master_replid2:(%w+)')
if before and find(before, '[^0]') then
  server = server .. '+' .. before .. '.' .. (match(facts, 'second_repl_offset:([%d-]+)') or '')
end
local policy = asked and match(facts, 'maxmemory_policy:([%w-]+)') or ''
local queued = num(math.max(tonumber(head[5]) or 0, 0))
local t, out = now(), { 'OK', head[3], head[4], flag or '', head[2], server, queued, '0', known, policy, num(highest),
  num(floor) }
-- A counter that is no number, or beyond those that are counted exactly, goes on from the clock.
local function beat(wid)
  local text = call('HGET', HEARTBEATS, wid) or ''
  local count = #text < 16 and tonumber(match(text, '^%d+$')) or 0
  call('HSET', HEARTBEATS, wid, num(math.max(count + 1, t)))
end
-- A stream that is missing, or of another type, counts as empty, and costs nobody a lease. The answer has the first and the last
-- entry whole.
local function stream_of(key)
  local info, known = redis.pcall('XINFO', 'STREAM', key), {}
  for i = 1, #info, 2 do known[info[i]] = info[i + 1] end
  local first = known['first-entry']
  return first and first[1] or '', num(known['entries-added'] or 0)
end
local lives
local streams = argv[4] == '' and 10 or 11
for i = 7, #argv do
  local entry = call('HGET', WORKERS, argv[i])
  if entry then beat(argv[i]) end
  lives = lives or entry
  out[#out + 1] = entry and sub(entry, 1, 1) or 'F'
  local oldest, added = '', '0'
  if entry then oldest, added = stream_of(KEYS[streams + i - 6]) end
  out[#out + 1] = oldest
  out[#out + 1] = added
end
-- Only shown: a key of another type costs nobody a lease, and goes.
if lives and argv[4] ~= '' and argv[5] ~= '' then
  local said = redis.pcall('HSET', NODES, argv[4], argv[5])
  if type(said) == 'table' and find(said.err, 'WRONGTYPE', 1, true) then
    call('UNLINK', NODES)
    call('HSET', NODES, argv[4], argv[5])
  end
end
if argv[4] ~= '' then
  local ms = math.max(60000, 2 * ttl)
  if call('PEXPIRE', KEYS[11], ms) == 0 then
    out[8] = '1'
    call('XADD', KEYS[11], '*', 'open', '1')
    call('PEXPIRE', KEYS[11], ms)
  end
end
return out
