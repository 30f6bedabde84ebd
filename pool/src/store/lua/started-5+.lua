#!lua flags=allow-oom
-- Notes that start handlers have succeeded, and tells the nodes that wait.
-- KEYS: m cf jo tb od, then the ns of each node named
-- ARGV: inc, wid, then key*, token*, index of the node to tell or 0*
-- Returns: OK, a letter per job, K noted | S stale
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
local stored, t = call('HMGET', JO, unpack(argv, 3, 2 + n)), now()
local letters, records, changed, events, k = {}, {}, {}, {}, 0
local last, running, stopping, length

-- The event for a node.
local function news(x)
  local event = { n = 0 }
  events[x] = event
  return event
end

-- Notes one, if the record is this worker's under this token.
local function note(r, key, token, x)
  if token ~= last then
    last = token
    running, stopping = '1|R|' .. wid .. '|' .. token .. '|', '1|S|' .. wid .. '|' .. token .. '|'
    length = #running
  end
  local start = sub(r, 1, length)
  if start ~= running and start ~= stopping then return 'S' end
  -- Where the flag of its begin stands, where its id does, and where its strikes do.
  local flag, first, beyond, mix, rest = match(r, '^%d+|()[012]|%d+|()' .. ID .. '()|%d+|%d*|()%d+()|', length + 1)
  if not flag then return 'S' end
  local id = sub(r, first, beyond - 1)
  if byte(r, flag) ~= 50 and not changed[key] then
    changed[key] = true
    local had, noted = sub(r, mix, rest - 1), nil
    if had == '0' then
      noted = gsub(r, '^(1|[RS]|%d+|%d+|%d+|)[01]', '%12', 1)
    else
      local between = sub(r, flag + 1, mix - 1)
      noted = sub(r, 1, flag - 1) .. '2' .. between .. num(had - had % strikes) .. sub(r, rest)
    end
    k = k + 1
    records[2 * k - 1], records[2 * k] = key, noted
    settle(id, 'ok', t, od_ms)
  end
  if x ~= '0' then
    local event = events[x] or news(x)
    local n = event.n
    event[n + 1], event[n + 2], event.n = id, 'ok', n + 2
  end
  return 'K'
end

for i = 1, n do
  local r = stored[i]
  letters[i] = r and note(r, argv[2 + i], argv[2 + n + i], argv[2 + 2 * n + i]) or 'S'
end
if k > 0 then call('HSET', JO, unpack(records)) end
tell_nodes(5, events)
return { 'OK', table.concat(letters) }
