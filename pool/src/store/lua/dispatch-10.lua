#!lua
-- Accepts jobs: record, payload and one start event for all of them. An id sent again gets its first answer.
-- KEYS: m cf jo jp q ps tb od sc pi
-- ARGV: inc, plan, its schedule's id and the caller's term, or three times '',
--       then (key, id, not_after, hash or '', payload)*
-- Returns: OK, then per job A accepted | E exists | B full | T ended | C conflict | O<outcome> | L late | R recovering |
--          Z shutting down | X bad argument, record or entry of the id. STALETERM
--@base
--@guard
--@clock
--@settings
--@records
--@outcome
--@term
local head, refusal = guard(true)
if not head then return refusal end
local plan = argv[2]
if plan ~= '' and not is_turn('s:' .. plan, argv[3], argv[4]) then return { 'STALETERM' } end
local flag, max_queued, route_ms, late_ms, payload_max = settings('max_queued', 'route_ms', 'late_ms', 'payload_max')
local n = (#argv - 4) / 5
local keys, ids = {}, {}
for i = 1, n do keys[i], ids[i] = argv[5 * i], argv[5 * i + 1] end
local stored, ended = call('HMGET', JO, unpack(keys)), call('ZMSCORE', TB, unpack(ids))
local queued, t = tonumber(call('HGET', M, 'nq')), now()
local due, latest = t + route_ms, t + late_ms
local ts = num(t)
local front, back = '1|Q||0|0|0|' .. ts .. '|', '|' .. ts .. '||0|' .. plan
local out, records, payloads, scores, starts = { 'OK' }, {}, {}, {}, {}
local entries, outcomes, accepted, planned, k = {}, {}, {}, {}, 0

local function answer(i)
  local at = 5 * i
  local key, id, not_after, hash, payload = keys[i], ids[i], tonumber(argv[at + 2]), argv[at + 3], argv[at + 4]
  local node, name = match(id, '^([%w_:-]+)%.!?([%w_:.-]+)$')
  if not node or #node > 64 or #name > 64 or not not_after or #key == 0 or #key > 512 or #payload > payload_max then
    return 'X'
  end
  local own = find(id, '.!', 1, true) and name
  if own then
    local entry = entries[own]
    if entry == nil then entry = known(own) end
    if entry == false then return 'X' end
    if entry then
      if not stands_for(entry, key, hash) then return 'C' end
      return entry.outcome and 'O' .. entry.outcome or 'A'
    end
  end
  local r = accepted[key] or stored[i]
  if r then
    local p = parse(r)
    if not p then return 'X' end
    return same(p.id, id) and 'A' or 'E'
  end
  if ended[i] then return 'T' end
  if flag then return 'Z' end
  if not_after < t or not_after > latest then return 'L' end
  if head[2] == 'R' then return 'R' end
  if queued >= max_queued then return 'B' end
  r = front .. id .. back
  accepted[key] = r
  queued = queued + 1
  local a, b = k + 1, k + 2
  k = b
  records[a], records[b] = key, r
  payloads[a], payloads[b] = key, payload
  scores[a], scores[b] = due, key
  starts[a], starts[b] = 's', key
  if plan ~= '' then planned[a], planned[b] = 0, plan .. '|' .. key end
  if own then
    local entry = { key = key, hash = hash, gen = id, v = OWN_VERSION }
    entries[own] = entry
    outcomes[#outcomes + 1] = own
    outcomes[#outcomes + 1] = cmsgpack.pack(entry)
  end
  return 'A'
end

for i = 1, n do out[i + 1] = answer(i) end
if k > 0 then
  call('HSET', JO, unpack(records))
  call('HSET', JP, unpack(payloads))
  call('ZADD', Q, unpack(scores))
  call('HINCRBY', M, 'nq', k / 2)
  if plan ~= '' then call('ZADD', PI, unpack(planned)) end
  if #outcomes > 0 then call('HSET', OD, unpack(outcomes)) end
  call('XADD', PS, '*', unpack(starts))
end
return out
