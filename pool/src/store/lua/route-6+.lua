#!lua
-- Moves start events to workers; mints one token for all jobs of a call. Whole entries only: the entries named are
-- acknowledged and deleted.
-- KEYS: pool settings jobs queue owners starts, then the stream of each worker named
-- ARGV: inc, the ring's revision, count of entries, count of workers, entry*, wid*, a byte per job: which worker it
--       gets, 0 none lives; then key*
-- Returns: OK, a letter per job, R routed | D wants no worker any more | W no live worker | X bad record.
--          STALERING revision | SHUTDOWN | NOTOKENS
--@base
--@guard
--@clock
--@settings
--@records
--@tokens
local head, refusal = guard(false, 'token')
if not head then return refusal end
if head[3] ~= argv[2] then return { 'STALERING', head[3] } end
local flag, assign_ms = settings('assign_timeout')
if is_stopping(flag) then return { 'SHUTDOWN' } end
if not has_tokens(head[6]) then return { 'NOTOKENS' } end
local entries, workers = tonumber(argv[3]), tonumber(argv[4])
local base = 5 + entries + workers
local n, worker_of = #argv - base, argv[base]
local letters = {}
if n > 0 then
  local stored, t = call('HMGET', JOBS, unpack(argv, base + 1, base + n)), now()
  local due, pattern = num(t + assign_ms), '^1|Q||%d+(' .. REST .. ')'
  local records, owned, scores, seen, events = {}, {}, {}, {}, {}
  local k, token = 0, nil

  for i = 1, n do
    local key, r, x = argv[base + i], stored[i], byte(worker_of, i)
    local reply = 'D'
    if r and not seen[key] then
      -- The shared data of a worker's jobs: its start event, the new beginning of their records, and the beginning of
      -- their names among the owners.
      local event = events[x]
      if not event and x > 0 and find(r, pattern) then
        token = token or num(call('HINCRBY', POOL, 'token', 1))
        local wid = argv[4 + entries + x]
        event = { 't', token, record = '1|A|' .. wid .. '|' .. token .. '%1', member = wid .. ':', n = 2 }
        events[x] = event
      end
      -- One pass tells whether the record is that of a queued job, and makes the new one.
      local assigned, fits = gsub(r, pattern, event and event.record or '%0', 1)
      if fits == 0 then
        if not parse(r) then reply = 'X' end
      elseif not event then
        reply = 'W'
        call('ZADD', QUEUE, t + 30000, key)
      else
        seen[key] = true
        local a, b = k + 1, k + 2
        k = b
        records[a], records[b] = key, assigned
        owned[a], owned[b] = '0', event.member .. key
        scores[a], scores[b] = due, key
        event[event.n + 1], event[event.n + 2] = 's', key
        event.n = event.n + 2
        reply = 'R'
      end
    end
    letters[i] = reply
  end
  if k > 0 then
    call('HSET', JOBS, unpack(records))
    call('ZADD', OWNERS, unpack(owned))
    call('ZADD', QUEUE, unpack(scores))
    for x, event in pairs(events) do call('XADD', KEYS[6 + x], '*', unpack(event, 1, event.n)) end
  end
end
if entries > 0 then
  call('XACK', STARTS, 'routers', unpack(argv, 5, 4 + entries))
  call('XDEL', STARTS, unpack(argv, 5, 4 + entries))
end
return { 'OK', table.concat(letters) }
