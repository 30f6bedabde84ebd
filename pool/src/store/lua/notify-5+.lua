#!lua
-- Keeps notifications with their jobs, in order; wakes the owner when the first one comes.
-- KEYS: pool settings jobs notifications workers, then the stream of each worker named
-- ARGV: inc, count of workers, a byte per notification: which worker is guessed, 0 none; wid*, then key*, body*
-- Returns: OK, a letter per notification, K kept | B the job's bound is reached | N no such job | R recovering |
--          M the guess is wrong, nothing done | X bad record; then the owner per M
--@base
--@guard
--@clock
--@settings
--@records
--@notes
--@send
local head, refusal = guard(true)
if not head then return refusal end
local _, cap, cap_bytes = settings('notify_cap', 'notify_bytes')
local workers = tonumber(argv[2])
local guess_of, base = argv[3], 3 + workers
local n = (#argv - base) / 2
local of_bodies = base + n
local headers = {}
for i = 1, n do headers[i] = 'h:' .. argv[base + i] end
local stored = call('HMGET', JOBS, unpack(argv, base + 1, of_bodies))
local waiting = call('HMGET', NOTIFICATIONS, unpack(headers))
local counted = call('HGET', POOL, 'notified') or ''
-- A count that is no number, or that headers cannot hold, goes on from one that no notification has had.
local from = (#counted > 14 or counted ~= '0' and not find(counted, '^[1-9]%d*$')) and now()
local number = from or tonumber(counted)
local pattern = '^1|([QARSP])|(%d*)|(%d+)' .. REST
local out, letters, fields, events, kept = { 'OK', '' }, {}, {}, {}, 0
-- Where `fields` has the header of a queue that this call has begun; and queues that it adds to, begun or not.
local begun, queues = {}, {}

-- A number as text: most are those of a notification, of the end of its queue and of the beginning of the next queue.
local texts = {}
local function text(n)
  local known = texts[n] or num(n)
  texts[n] = known
  return known
end

-- A queue as this call leaves it; false when its header cannot be read. `at` is as in `begun`.
local function queue_of(key, header, at)
  local text, first, next_, bytes = span_of(header)
  local queue = text and { at = at, first = first, next = next_, bytes = bytes } or false
  queues[key] = queue
  return queue
end

-- The shared data of a worker's jobs.
local function event_for(x)
  local event = { n = 0, owner = x > 0 and argv[3 + x] }
  events[x] = event
  return event
end

local function answer(i)
  local r, key, body = stored[i], argv[base + i], argv[of_bodies + i]
  if not r then return head[2] == 'R' and 'R' or 'N' end
  local state, owner, token = match(r, pattern)
  if not state then return 'X' end
  if state == 'S' then return 'N' end
  local queue, at, header, size = queues[key], begun[key], waiting[i], #body
  if queue == nil and (at or header) then queue = queue_of(key, at and fields[at] or header, at) end
  if queue == false then return 'X' end
  local count, bytes = 0, size
  if queue then count, bytes = queue.next - queue.first, queue.bytes + size end
  if count >= cap or bytes > cap_bytes then return 'B' end
  if count == 0 and state == 'R' then
    local x = byte(guess_of, i)
    local event = events[x] or event_for(x)
    if event.owner ~= owner then
      out[#out + 1] = owner
      return 'M'
    end
    local j = event.n
    event[j + 1], event[j + 2], event[j + 3], event[j + 4], event.n = 'n', key, 't', token, j + 4
  end
  local j = #fields
  fields[j + 2] = body
  if count ~= 0 then
    fields[j + 1] = text(queue.next) .. ':' .. key
    queue.next, queue.bytes, queue.changed = queue.next + 1, bytes, true
  else
    local first = text(number + kept)
    fields[j + 1] = first .. ':' .. key
    fields[j + 3], fields[j + 4] = headers[i], first .. '|' .. text(number + kept + 1) .. '|' .. text(bytes)
    begun[key], queues[key] = j + 4, nil
  end
  kept = kept + 1
  return 'K'
end

for i = 1, n do letters[i] = answer(i) end
if kept > 0 then
  for key, queue in pairs(queues) do
    if queue and queue.changed then
      local at = queue.at
      if not at then
        at = #fields + 2
        fields[at - 1] = 'h:' .. key
      end
      fields[at] = text(queue.first) .. '|' .. text(queue.next) .. '|' .. text(queue.bytes)
    end
  end
  if from then call('HSET', POOL, 'notified', num(from)) end
  call('HINCRBY', POOL, 'notified', kept)
  call('HSET', NOTIFICATIONS, unpack(fields))
  for x, event in pairs(events) do
    if event.n > 0 then send(KEYS[5 + x], event) end
  end
end
out[2] = table.concat(letters)
return out
