#!lua flags=allow-oom
-- Notes that start handlers of workers, all of one node, have succeeded, and tells the nodes that wait.
-- KEYS: pool settings jobs ended outcomes, then the stream of each node named
-- ARGV: inc, count of workers, wid*, count of its jobs*, count of tokens, token*, a byte per job: which token it has; a
--       byte per job: which node to tell, 0 none; then key*
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
local workers = tonumber(argv[2])
local of_jobs, of_tokens = 2 + workers, 3 + 2 * workers
local base = of_tokens + argv[of_tokens] + 2
local n, token_of, node_of = #argv - base, argv[base - 1], argv[base]
local stored = call('HMGET', JOBS, unpack(argv, base + 1, base + n))
local letters, records, changed, events, k = {}, {}, {}, {}, 0
local t, retention_ms, strikes = nil, nil, nil -- read when they are needed first, which is before the first write
local last = 0 -- the last job of the workers before
for w = 1, workers do
  local wid, of_token, running, stopping, length = argv[2 + w], nil, nil, nil, nil
  for i = last + 1, last + argv[of_jobs + w] do
    local r, flag, first, beyond, mix, rest = stored[i], nil, nil, nil, nil, nil
    if r then
      local token = argv[of_tokens + byte(token_of, i)]
      if token ~= of_token then
        of_token = token
        running, stopping = '1|R|' .. wid .. '|' .. token .. '|', '1|S|' .. wid .. '|' .. token .. '|'
        length = #running
      end
      local start = sub(r, 1, length)
      if start == running or start == stopping then
        -- Where the flag of its begin stands, where its id does, and where its strikes do.
        flag, first, beyond, mix, rest = match(r, '^%d+|()[012]|%d+|()' .. ID .. '()|%d+|%d*|()%d+()|', length + 1)
      end
    end
    if flag then
      local key, id, x = argv[base + i], sub(r, first, beyond - 1), byte(node_of, i)
      if byte(r, flag) ~= 50 and not changed[key] then
        changed[key] = true
        local had, own = sub(r, mix, rest - 1), find(id, '.!', 1, true)
        if not t and (own or had ~= '0') then
          local _
          t, _, retention_ms, strikes = now(), settings('outcome_retention', 'strikes')
        end
        local noted
        if had == '0' then
          noted = gsub(r, '^(1|[RS]|%d+|%d+|%d+|)[01]', '%12', 1)
        else
          noted = sub(r, 1, flag - 1) .. '2' .. sub(r, flag + 1, mix - 1) .. num(had - had % strikes) .. sub(r, rest)
        end
        k = k + 1
        records[2 * k - 1], records[2 * k] = key, noted
        if own then settle(id, 'ok', t, retention_ms) end
      end
      if x > 0 then
        local event = events[x]
        if not event then
          event = { n = 0 }
          events[x] = event
        end
        event[event.n + 1], event[event.n + 2] = id, 'ok'
        event.n = event.n + 2
      end
    end
    letters[i] = flag and 'K' or 'S'
  end
  last = last + argv[of_jobs + w]
end
if k > 0 then call('HSET', JOBS, unpack(records)) end
tell_nodes(5, events)
return { 'OK', table.concat(letters) }
