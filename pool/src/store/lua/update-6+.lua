#!lua
-- Gives jobs another payload, each named with its dispatch and the generation that the caller has seen. Only the payload
-- and the generation change, in one step; the owner of a running job learns of it from its stream.
-- KEYS: pool workers settings jobs payloads schedules, then the stream of each worker named
-- ARGV: inc, plan, its schedule's id and the caller's term, or three times '', count of workers, a byte per job: which
--       worker is guessed, 0 none; wid*, then key*, id*, generation*, payload*
-- Returns: OK, a letter per job: K kept | E it means the same already | C another generation, nothing done | N no job of
--          that dispatch, or not the plan's | S stopping | R recovering | M the guess is wrong, nothing done |
--          L the payload is too long | X bad record; then the generation per K, E and C, and the owner per M. STALETERM
--@base
--@guard
--@settings
--@records
--@generation
--@term
--@send
local head, refusal = guard(true)
if not head then return refusal end
local plan = argv[2]
if plan ~= '' and not is_turn('s:' .. plan, argv[3], argv[4]) then return { 'STALETERM' } end
local _, payload_max = settings('payload_max')
local workers = tonumber(argv[5])
local guess_of, base = argv[6], 6 + workers
local n = (#argv - base) / 4
local of_ids, of_generations, of_payloads = base + n, base + 2 * n, base + 3 * n
local stored = call('HMGET', JOBS, unpack(argv, base + 1, of_ids))
local out, letters, records, payloads, events = { 'OK', '' }, {}, {}, {}, {}
local changed = {} -- jobs as this call leaves them

-- The payload that a job has, unless its length says that it means something else. Two that mean the same differ in a trace
-- at most, which has fewer than 1,024 bytes. So a call reads about as much as it brings.
local function similar(key, payload)
  if math.abs(call('HSTRLEN', PAYLOADS, key) - #payload) >= 1024 then return nil end
  return call('HGET', PAYLOADS, key)
end

-- Where a text of MessagePack, or a map of such, ends; nil for anything else.
local function behind(s, at)
  local b = byte(s, at) or 0
  if b >= 160 and b < 192 then return at + b - 159 end
  if b == 217 then return at + 2 + (byte(s, at + 1) or 0) end
  if b == 218 then return at + 3 + 256 * (byte(s, at + 1) or 0) + (byte(s, at + 2) or 0) end
  if b < 128 or b >= 144 then return nil end
  at = at + 1
  for _ = 1, 2 * (b - 128) do at = at and behind(s, at) end
  return at
end

-- An envelope without its trace, which stands behind the version. The other fields have one order and one encoding.
local function meaning(envelope)
  local trace = match(envelope, '^[\130-\143]\161v\1\165trace()')
  local rest = trace and behind(envelope, trace)
  return rest and string.char(byte(envelope) - 1) .. '\161v\1' .. sub(envelope, rest) or envelope
end

-- The shared data of a worker's jobs.
local function event_for(x)
  local event = { n = 0, owner = x > 0 and argv[6 + x] }
  events[x] = event
  return event
end

local function say(value) out[#out + 1] = value end

local function answer(i)
  local key, payload, change = argv[base + i], argv[of_payloads + i], changed[argv[base + i]]
  if #payload > payload_max then return 'L' end
  local r = change and change.record or stored[i]
  if head[2] == 'R' then return 'R' end -- an owner that has not attested yet may have a later one
  if not r then return 'N' end
  local p = parse(r)
  if not p then return 'X' end
  if p.id ~= argv[of_ids + i] then return 'N' end
  if plan ~= '' and p.plan ~= plan then return 'N' end
  if p.state == 'S' then return 'S' end
  local generation, rest = generation_of(p.tail)
  local present = change and change.payload or not change and similar(key, payload)
  if present and (present == payload or meaning(present) == meaning(payload)) then
    say(num(generation))
    return 'E'
  end
  if num(generation) ~= argv[of_generations + i] then
    say(num(generation))
    return 'C'
  end
  generation = num(generation + 1)
  if p.state == 'R' then
    local x = byte(guess_of, i)
    local event = events[x] or event_for(x)
    if event.owner ~= p.owner then
      say(p.owner)
      return 'M'
    end
    local j = event.n
    event[j + 1], event[j + 2], event[j + 3], event[j + 4] = 'u', key, 't', p.token
    event[j + 5], event[j + 6], event.n = 'g', generation, j + 6
  end
  p.tail = '|' .. generation .. rest
  local k, record = #records, pack(p)
  records[k + 1], records[k + 2], payloads[k + 1], payloads[k + 2] = key, record, key, payload
  changed[key] = { record = record, payload = payload }
  say(generation)
  return 'K'
end

for i = 1, n do letters[i] = answer(i) end
if #records > 0 then
  call('HSET', PAYLOADS, unpack(payloads))
  call('HSET', JOBS, unpack(records))
  for x, event in pairs(events) do
    if event.n > 0 then send(KEYS[6 + x], event) end
  end
end
out[2] = table.concat(letters)
return out
