#!lua flags=allow-oom
-- Notes that start handlers have succeeded, and tells the nodes that wait.
-- KEYS: m cf jo tb od, then the ns of each node named
-- ARGV: inc, wid, then (key, token, index of the node to tell or 0)*
-- Returns: OK, then per job K noted | S stale
--@base
--@guard
--@clock
--@settings
--@records
--@outcome
--@tell
local head, refusal = guard(true)
if not head then return refusal end
local wid, n = argv[2], (#argv - 2) / 3
local _, od_ms, strikes = settings('od_ms', 'strikes')
local keys = {}
for i = 1, n do keys[i] = argv[3 * i] end
local stored, t = call('HMGET', JO, unpack(keys)), now()
local out, records, changed, events, k = { 'OK' }, {}, {}, {}, 0
for i = 1, n do
  local key, r = keys[i], stored[i]
  local p, reply = r and parse(r), 'S'
  if p and p.owner == wid and p.token == argv[3 * i + 1] and (p.state == 'R' or p.state == 'S') then
    reply = 'K'
    if p.begun ~= '2' and not changed[key] then
      changed[key] = true
      p.begun, p.mix = '2', num(p.mix - p.mix % strikes)
      k = k + 1
      records[2 * k - 1], records[2 * k] = key, pack(p)
      settle(p.id, 'ok', t, od_ms)
    end
    local x = tonumber(argv[3 * i + 2])
    if x > 0 then
      local event = events[x] or {}
      events[x] = event
      event[#event + 1] = p.id
      event[#event + 1] = 'ok'
    end
  end
  out[i + 1] = reply
end
if k > 0 then call('HSET', JO, unpack(records)) end
tell_nodes(5, events)
return out
