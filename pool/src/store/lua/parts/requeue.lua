-- Queues jobs that were owned or parked; collected by announce() and requeue(), written by write_requeues(); what later
-- items of the same call are to see, by write_requeued() before. Tokens stay.
local records, scores, released, starts = {}, {}, {}, {}
local parked, errors, unscored = {}, {}, {}

-- A start event; its field carries the strikes, so that a router need not read the record.
local function announce(key, strikes, due)
  starts[#starts + 1] = strikes == '0' and 's' or 's' .. strikes
  starts[#starts + 1] = key
  scores[#scores + 1] = due
  scores[#scores + 1] = key
end

-- The start of a text, cut between two characters to at most this many bytes.
local function shortened(text, most)
  local n = math.min(#text, most)
  while n < #text and n > 0 and byte(text, n + 1) >= 128 and byte(text, n + 1) < 192 do n = n - 1 end
  return sub(text, 1, n)
end

-- Queues the job: announced now, or left to the sweeper after `delay`; after too many attempts, parks it. `Q` or `P`. A
-- job that waits because it failed, or is parked, keeps the reason until it is begun or ends. That of a pause may say when
-- the pause is over.
local function requeue(key, p, t, delay, route_ms, max_attempts, reason)
  if p.owner ~= '' then released[#released + 1] = p.owner .. ':' .. key end
  p.owner, p.since = '', num(t)
  local n = #records
  if tonumber(p.attempts) >= max_attempts then
    p.state = 'P'
    local ends = is_paused(p) and end_of(reason)
    if ends then p.tail = gsub(p.tail, '^(|[^|]*|z%d*)[^|]*', '%1+' .. ends, 1) end
    records[n + 1], records[n + 2] = key, pack(p)
    unscored[#unscored + 1] = key
    parked[#parked + 1] = wakes_at(p)
    parked[#parked + 1] = key
    errors[#errors + 1] = key
    errors[#errors + 1] = shortened(reason, 1024)
    return 'P'
  end
  p.state = 'Q'
  records[n + 1], records[n + 2] = key, pack(p)
  if delay > 0 then
    scores[#scores + 1] = t + delay
    scores[#scores + 1] = key
    if reason ~= '' and p.attempts ~= '0' then
      errors[#errors + 1] = key
      errors[#errors + 1] = shortened(reason, 1024)
    end
  else
    announce(key, p.strikes, t + route_ms)
  end
  return 'Q'
end

-- The records are changed last: with a key of another type above, the call can be made again.
local function write_requeued()
  if #released > 0 then call('ZREM', OWNERS, unpack(released)) end
  if #unscored > 0 then
    call('ZREM', QUEUE, unpack(unscored))
    call('ZADD', PARKED, unpack(parked))
  end
  if #errors > 0 then redis.pcall('HSET', ERRORS, unpack(errors)) end -- only shown: a damaged key stops no job
  if #scores > 0 then call('ZADD', QUEUE, unpack(scores)) end
  if #records > 0 then call('HSET', JOBS, unpack(records)) end
  records, scores, released, parked, errors, unscored = {}, {}, {}, {}, {}, {}
end

local function write_requeues()
  write_requeued()
  for i = 1, #starts, 256 do call('XADD', STARTS, '*', unpack(starts, i, math.min(i + 255, #starts))) end
end
