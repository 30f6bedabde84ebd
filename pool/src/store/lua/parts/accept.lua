-- Accepts new jobs: accept() gathers what belongs to them, write_accepted() writes it. One that has a worker is assigned at
-- once, as if a route followed, under a token that all jobs of the call share.
local accepted, records, payloads, scores, starts, owned, assigned, token = {}, {}, {}, {}, {}, {}, {}, nil
local ts, front, back, due_at, begun_at, due, due_begun

local function begin_accepting(t, route_ms, assign_ms, plan)
  ts, due_at, begun_at = num(t), t + route_ms, t + assign_ms
  front, back = '1|Q||0|0|0|' .. ts .. '|', '|' .. ts .. '||0|' .. plan
end

-- How many jobs have not begun. Of those that are there alone some have not: a count that is damaged fills no pool.
local function queued_of(text, max_queued)
  local queued = tonumber(text) or 0
  if queued >= max_queued and queued > call('HLEN', JOBS) then
    queued = call('HLEN', JOBS)
    call('HSET', POOL, 'queued', queued)
  end
  return queued
end

-- `x` is the number of its worker, `wid`; 0 for none.
local function accept(key, id, payload, x, wid)
  local a = #records + 1
  local b, r = a + 1, nil
  if x > 0 then
    -- The shared data of a worker's jobs: its start event, and the beginnings of their records and of their names among
    -- the owners.
    local event = assigned[x]
    if not event then
      token, due_begun = token or num(call('HINCRBY', POOL, 'token', 1)), due_begun or num(begun_at)
      event = { 't', token, n = 2, front = '1|A|' .. wid .. '|' .. token .. '|0|0|' .. ts .. '|', member = wid .. ':' }
      assigned[x] = event
    end
    r = event.front .. id .. back
    scores[a], scores[b] = due_begun, key
    owned[#owned + 1] = '0'
    owned[#owned + 1] = event.member .. key
    event[event.n + 1], event[event.n + 2] = 's', key
    event.n = event.n + 2
  else
    due = due or num(due_at)
    r = front .. id .. back
    scores[a], scores[b] = due, key
    starts[#starts + 1] = 's'
    starts[#starts + 1] = key
  end
  accepted[key] = r
  records[a], records[b] = key, r
  payloads[a], payloads[b] = key, payload
end

-- The streams of the workers follow the first `fixed` KEYS.
local function write_accepted(fixed)
  if #records == 0 then return end
  call('HSET', PAYLOADS, unpack(payloads))
  call('ZADD', QUEUE, unpack(scores))
  if #starts > 0 then call('XADD', STARTS, '*', unpack(starts)) end
  if token then
    call('ZADD', OWNERS, unpack(owned))
    for x, event in pairs(assigned) do call('XADD', KEYS[fixed + x], '*', unpack(event, 1, event.n)) end
  end
  -- The records come last: with a key of another type above, none is accepted without all that belongs to it. The rest was
  -- read before, and is of its type.
  call('HSET', JOBS, unpack(records))
  count('queued', #records / 2)
end
