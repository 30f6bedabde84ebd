#!lua
-- A worker joins: with a slot if there is one for it, else as a standby. Where there are no jobs it has one at once. Where
-- there are, and nobody is up, it stands by: whoever comes meanwhile has its slot in the same step. A nonce that is a member
-- already is answered with its entry.
-- KEYS: pool workers heartbeats expired settings jobs changes
-- ARGV: inc, nonce, node, meta, address, preferred slot or '', then (setting, value)*
-- Returns: OK wid entry first (1: the pool's only live slot, or nobody is up) | LOST signs (as renew) | SHUTDOWN |
--          SETTING name theirs ours | BADARG | NOTOKENS
-- Publishes: workers, one entry and, when the ring grows, its size; settings, those that are new
--@base
--@guard
--@clock
--@ring
--@seats
--@tokens
--@change
local head, refusal = guard(false, 'token')
if not head then return refusal end
local nonce, node, meta, address, preferred = argv[2], argv[3], argv[4], argv[5], tonumber(argv[6])
if not (is_name(nonce) and is_name(node) and not find(node, '.', 1, true) and (meta == '' or is_name(meta))) then
  return { 'BADARG' }
end
if #address > 128 or find(address, '[^!-{}~]') then return { 'BADARG' } end
local used, live, _, _, all = ring()
local up = living(all, now())
for i = 1, #all, 2 do
  if match(all[i + 1], '^%u|[^|]*|%d+|([^|]*)|') == nonce then
    return { 'OK', all[i], all[i + 1], is_first(all[i + 1], live, up) }
  end
end
if call('HEXISTS', SETTINGS, 'shutdown') == 1 then return { 'SHUTDOWN' } end
-- A worker that joins would hide that the others were lost.
if head[3] ~= '1' and call('HEXISTS', WORKERS, 'size') == 0
  and not find(call('HGET', POOL, 'lost') or '', 'm', 1, true) then
  return { 'LOST', 'm' }
end
local added, ttl = {}, nil
for i = 7, #argv, 2 do
  local name, ours = argv[i], argv[i + 1]
  local theirs = call('HGET', SETTINGS, name)
  if theirs and theirs ~= ours then return { 'SETTING', name, theirs, ours } end
  if not theirs then
    added[#added + 1] = name
    added[#added + 1] = ours
  end
  if name == 'worker_ttl' then ttl = ours end
end
if not ttl then return { 'BADARG' } end
if not has_tokens(head[7]) then return { 'NOTOKENS' } end

local slot = nil
local function offer(text)
  local free = tonumber(text)
  if free and free < 65536 and not used[free] and (not slot or free < slot) then slot = free end
end
local empty = call('HLEN', JOBS) == 0
if up == 0 and not empty then
  slot = nil
elseif preferred and preferred >= 0 and preferred < 65536 and preferred % 1 == 0 and not used[preferred] then
  slot = preferred
else -- the slot of a draining worker, or of an expired one that is not reaped yet
  for i = 1, #all, 2 do offer(match(all[i + 1], '^G|(%d+)|')) end
  if not slot then
    for _, dead in ipairs(call('HVALS', EXPIRED)) do offer(match(dead, '|(%d+)$')) end
  end
  if not slot and empty then
    slot = 0
    while used[slot] do slot = slot + 1 end
  end
end

if #added > 0 then mapput('settings', SETTINGS, POOL, 'settings_revision', CHANGES, argv[1], added) end
local wid = num(call('HINCRBY', POOL, 'token', 1))
local entry = table.concat({ slot and 'U' or 'P', slot or '-', ttl, nonce, node, meta, LEVEL, address }, '|')
call('HSET', HEARTBEATS, wid, 1)
local changes = { wid, entry }
grow(changes, slot or 0)
mapput('workers', WORKERS, POOL, 'workers_revision', CHANGES, argv[1], changes)
return { 'OK', wid, entry, is_first(entry, slot and live + 1 or live, up) }
