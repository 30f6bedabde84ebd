#!lua
-- Keeps notifications with their jobs, in order; wakes the owner when the first one comes.
-- KEYS: m cf jo jn, then the ws of each worker named
-- ARGV: inc, count of workers, wid*, then (key, index of the worker guessed or 0, body)*
-- Returns: OK, a letter per notification, K kept | B the job's bound is reached | N no such job | R recovering |
--          M the guess is wrong, nothing done | X bad record; then the owner per M
--@base
--@guard
--@settings
--@records
local head, refusal = guard(true)
if not head then return refusal end
local _, cap, cap_bytes = settings('nt_cap', 'nt_bytes')
local workers = tonumber(argv[2])
local base = 2 + workers
local n = (#argv - base) / 3
local keys, headers = {}, {}
for i = 1, n do
  keys[i] = argv[base + 3 * i - 2]
  headers[i] = 'h:' .. keys[i]
end
local stored, waiting = call('HMGET', JO, unpack(keys)), call('HMGET', JN, unpack(headers))
local number = tonumber(call('HGET', M, 'nt'))
local pattern = '^1|([QARSP])|(%d*)|(%d+)' .. REST
local out, letters, queues, fields, events, kept = { 'OK', '' }, {}, {}, {}, {}, 0

-- A number as text: most are those of a notification, of the end of its queue and of the beginning of the next queue.
local texts = {}
local function text(n)
  local known = texts[n] or num(n)
  texts[n] = known
  return known
end

-- The queue of a job as this call leaves it; false when its header cannot be read.
local function queue_of(key, header, name)
  local queue = queues[key]
  if queue == nil then
    if header then
      local first, next_, bytes = match(header, '^(%d+)|(%d+)|(%d+)$')
      queue = first and { name = name, first = tonumber(first), next = tonumber(next_), bytes = tonumber(bytes) } or false
    else
      queue = { name = name, first = 0, next = 0, bytes = 0 }
    end
    queues[key] = queue
  end
  return queue
end

local function wake(x, key, token)
  local event = events[x] or {}
  events[x] = event
  local j = #event
  event[j + 1], event[j + 2], event[j + 3], event[j + 4] = 'n', key, 't', token
end

local function answer(i, key, guess, body)
  local r = stored[i]
  if not r then return head[2] == 'R' and 'R' or 'N' end
  local state, owner, token = match(r, pattern)
  if not state then return 'X' end
  if state == 'S' then return 'N' end
  local queue = queue_of(key, waiting[i], headers[i])
  if not queue then return 'X' end
  if queue.next - queue.first >= cap or queue.bytes + #body > cap_bytes then return 'B' end
  if queue.next == queue.first then
    if state == 'R' then
      if guess == 0 or argv[2 + guess] ~= owner then
        out[#out + 1] = owner
        return 'M'
      end
      wake(guess, key, token)
    end
    queue.first, queue.next = number + kept, number + kept
  end
  fields[#fields + 1] = text(queue.next) .. ':' .. key
  fields[#fields + 1] = body
  queue.next, queue.bytes, queue.changed = queue.next + 1, queue.bytes + #body, true
  kept = kept + 1
  return 'K'
end

for i = 1, n do
  local at = base + 3 * i - 2
  letters[i] = answer(i, keys[i], tonumber(argv[at + 1]), argv[at + 2])
end
if kept > 0 then
  for _, queue in pairs(queues) do
    if queue and queue.changed then
      fields[#fields + 1] = queue.name
      fields[#fields + 1] = text(queue.first) .. '|' .. text(queue.next) .. '|' .. text(queue.bytes)
    end
  end
  call('HINCRBY', M, 'nt', kept)
  call('HSET', JN, unpack(fields))
  for x, event in pairs(events) do call('XADD', KEYS[4 + x], '*', unpack(event)) end
end
out[2] = table.concat(letters)
return out
