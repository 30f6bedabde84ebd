#!lua
-- Steers single jobs, as an operator wants it. Each is named with its dispatch, and with the token and the time since when
-- that its record had when the caller looked: so a late copy finds another record. A job that nobody has begun is placed
-- anew, parked or paused; the owner of a running job is told. A pause with a later end, or none, takes the place of one.
-- KEYS: pool workers settings jobs owners queue parked errors starts, then the stream of each worker named
-- ARGV: inc, count of workers, a byte per job: which worker is guessed, 0 none; a letter per job: its way, n begins
--       now | h goes home | e goes elsewhere | p is parked | z is paused | y is resumed; wid*, then key*, id*, token*,
--       since*, reason*. That of a pause is by|end|why: when it is over, by the server's clock, ms, or nothing. That of a
--       resume has the end that the caller saw, in the same place. A granted job that nobody has begun is assigned once more
--       by way n: its news may be lost
-- Returns: OK, a letter per job: K its owner is told | Q queued | P parked, now or before |
--          Y paused, now or before | C its record is another one, nothing done | S stopping |
--          N no job of that dispatch | R recovering | X bad record. SHUTDOWN
--@base
--@guard
--@clock
--@settings
--@records
--@paused
--@requeue
--@why
--@elsewhere
--@send
local head, refusal = guard(true)
if not head then return refusal end
local flag, route_ms, max_attempts = settings('route_timeout', 'max_attempts')
if is_stopping(flag) then return { 'SHUTDOWN' } end
local workers, guess_of, ways, t = tonumber(argv[2]), argv[3], argv[4], now()
local base = 4 + workers
local n = (#argv - base) / 5
local of_ids, of_tokens, of_sinces, of_reasons = base + n, base + 2 * n, base + 3 * n, base + 4 * n
local stored = call('HMGET', JOBS, unpack(argv, base + 1, of_ids))
local letters, events, unparked, jobs, again = {}, {}, {}, {}, {}

-- The shared data of a worker's jobs.
local function event_for(x)
  local event = { n = 0, owner = x > 0 and argv[4 + x] }
  events[x] = event
  return event
end

-- Whether a pause with this text lasts longer than the one that the job has.
local function lasts(p, pause)
  local ends, has = tonumber(end_of(pause)), tonumber(wakes_at(p))
  return has < 9e15 and (not ends or ends > has)
end

-- Whether a paused job has the end that the caller saw. A pause that was made longer meanwhile is not resumed.
local function ends_as(p, seen) return (tonumber(end_of(seen)) or 9e15) == tonumber(wakes_at(p)) end

-- Queues or parks a job. Nobody can have seen a time that this call sets, so a later item of the call finds another record.
local function place(key, p, at, most, reason)
  local stays = p.since == num(at)
  local letter = requeue(key, p, at, 0, route_ms, most, reason)
  if not stays then p.since = '' end
  return letter
end

local function answer(i)
  local key, way, reason = argv[base + i], sub(ways, i, i), argv[of_reasons + i]
  if head[2] == 'R' then return 'R' end -- an owner that has not attested yet may run it
  local p = jobs[key] or stored[i] and (parse(stored[i]) or 'bad')
  if not p then return 'N' end
  if p == 'bad' then return 'X' end
  jobs[key] = p
  if p.id ~= argv[of_ids + i] then return 'N' end
  if p.state == 'S' then return 'S' end
  if p.state == 'P' then
    local paused = is_paused(p)
    if paused and way ~= 'y' and not (way == 'z' and lasts(p, reason)) then return 'Y' end
    if not paused and way ~= 'n' and way ~= 'z' then return 'P' end
    if way == 'y' and not ends_as(p, reason) then return 'C' end
  elseif way == 'y' then
    return 'C'
  end
  if p.token ~= argv[of_tokens + i] or p.since ~= argv[of_sinces + i] then return 'C' end
  if p.state == 'R' then
    local x = byte(guess_of, i)
    local event = events[x] or event_for(x)
    if way == 'n' and p.begun ~= '2' and event.owner == p.owner then
      again[#again + 1] = { x = x, event = { 't', p.token, 's', key, n = 4, owner = p.owner } }
      return 'K'
    end
    if way == 'n' or event.owner ~= p.owner then return 'C' end
    local j = event.n
    event[j + 1], event[j + 2], event[j + 3], event[j + 4] = 'r', key, 't', p.token
    event[j + 5], event[j + 6], event[j + 7], event[j + 8], event.n = 'w', way, 'e', reason, j + 8
    return 'K'
  end
  -- The time since when must differ from the one that was seen, also within a millisecond.
  local since = tonumber(p.since)
  local at = since >= t and since < t + 60000 and since + 1 or t
  if way == 'p' or way == 'z' then
    if p.state == 'P' and is_paused(p) then at = tonumber(p.since) end -- it goes on being paused
    because(p, way)
    place(key, p, at, 0, reason)
    return way == 'z' and 'Y' or 'P'
  end
  if p.state == 'P' then
    p.attempts, p.strikes = '0', '0'
    unparked[#unparked + 1] = key
    because(p, way == 'y' and 'y' or 'u')
  elseif p.state == 'A' then
    if way == 'n' then return 'C' end
    because(p, 'b')
    if way == 'h' then p.strikes = '0' else elsewhere(p, 4294967296) end
  end
  return place(key, p, at, max_attempts, '')
end

for i = 1, n do letters[i] = answer(i) end
if #unparked > 0 then
  call('ZREM', PARKED, unpack(unparked))
  redis.pcall('HDEL', ERRORS, unpack(unparked))
end
write_requeues()
for _, one in ipairs(again) do send(KEYS[9 + one.x], one.event) end
for x, event in pairs(events) do
  if event.n > 0 then send(KEYS[9 + x], event) end
end
return { 'OK', table.concat(letters) }
