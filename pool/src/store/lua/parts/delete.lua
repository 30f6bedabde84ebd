-- Deletes jobs with everything that belongs to them: delete() and collect() gather it, write_deletions() writes.
local gone, unqueued, unowned, unparked, unplanned, remembered, never_begun = {}, {}, {}, {}, {}, {}, 0
local any_notes, notes, lasting, any_checkpoints = nil, {}, {}, nil
-- After this many fields of notifications, a call deletes no other job: its caller goes on with the rest.
local NOTES_PAGE, collected = 4096, 0

local function is_full() return collected >= NOTES_PAGE end

-- A header that is damaged goes alone. Where `notifications` cannot be read, nothing of it goes, and the job does.
local function collect_notes(key)
  if any_notes == nil then any_notes = call('EXISTS', NOTIFICATIONS) == 1 end
  local header = any_notes and redis.pcall('HGET', NOTIFICATIONS, 'h:' .. key)
  if type(header) ~= 'string' then return end
  local n = #notes + 1
  notes[n] = 'h:' .. key
  collected = collected + 1
  local text, first, ending = span_of(header)
  if not text then return end
  collected = collected + ending - first
  for seq = first, ending - 1 do notes[n + 1 + seq - first] = num(seq) .. ':' .. key end
end

-- Until when an id is remembered of which the time counts from `since`, as text: one for many. False when that is past.
local function remembered_until(since, t, late_ms)
  local text = lasting[since]
  if text == nil then
    text = since + late_ms > t and num(since + late_ms)
    lasting[since] = text
  end
  return text
end

-- Collects one job: `owner` is '' for nobody's; `since` is false if its id is not remembered.
local function collect(key, owner, queued, id, since, t, late_ms)
  gone[#gone + 1] = key
  if queued then unqueued[#unqueued + 1] = key end
  if owner ~= '' then unowned[#unowned + 1] = owner .. ':' .. key end
  if any_notes ~= false then collect_notes(key) end
  local lasts = since and remembered_until(since, t, late_ms)
  if lasts then
    local n = #remembered
    remembered[n + 1], remembered[n + 2] = lasts, id
  end
end

local function delete(key, p, t, outcome, late_ms, retention_ms)
  -- Parked, or waiting after it failed: only such have an error.
  local waits = (p.state == 'Q' or p.state == 'A') and p.attempts ~= '0'
  if waits or p.state == 'P' then unparked[#unparked + 1] = key end
  if p.plan ~= '' then unplanned[#unplanned + 1] = p.plan .. '|' .. key end
  if p.begun == '0' then never_begun = never_begun + 1 end
  local own = find(p.id, '.!', 1, true)
  if own then settle(p.id, outcome, t, retention_ms) end
  -- Attested in this incarnation: an attestation that is late or doubled may still come. Given up by a worker that may not
  -- have heard that: after a loss of data it may say that it has the job. An outcome does not say that the run has ended.
  local given_up = p.begun ~= '0' and p.state ~= 'R' and p.state ~= 'S'
  -- Begun lately: who had handed it off before, and has not heard that, may say so too.
  local begun = p.begun ~= '0' and math.max(p.since, p.created)
  local since = (given_up or p.ainc == argv[1]) and math.max(t, p.created) or begun or not own and p.created
  collect(key, p.owner, p.state ~= 'R' and p.state ~= 'P', p.id, since, t, late_ms)
end

-- A damaged key keeps no job.
local function delete_checkpoints()
  if any_checkpoints == nil then any_checkpoints = call('EXISTS', CHECKPOINTS) == 1 end
  if not any_checkpoints then return end
  local fields = {}
  for i, key in ipairs(gone) do fields[2 * i - 1], fields[2 * i] = 'h:' .. key, 'b:' .. key end
  redis.pcall('HDEL', CHECKPOINTS, unpack(fields))
end

-- The records go last: with a key of another type above, they are there when the call is made again.
local function write_deletions()
  if #gone == 0 then return end
  call('HDEL', PAYLOADS, unpack(gone))
  if #unqueued > 0 then call('ZREM', QUEUE, unpack(unqueued)) end
  if #unowned > 0 then call('ZREM', OWNERS, unpack(unowned)) end
  if #unparked > 0 then
    call('ZREM', PARKED, unpack(unparked))
    redis.pcall('HDEL', ERRORS, unpack(unparked))
  end
  if #unplanned > 0 then call('ZREM', PLANNED, unpack(unplanned)) end
  if #remembered > 0 then call('ZADD', ENDED, unpack(remembered)) end
  for i = 1, #notes, 4000 do call('HDEL', NOTIFICATIONS, unpack(notes, i, math.min(i + 3999, #notes))) end
  delete_checkpoints()
  call('HDEL', JOBS, unpack(gone))
  if never_begun > 0 then count('queued', -never_begun) end
  gone, unqueued, unowned, unparked, unplanned, remembered, never_begun = {}, {}, {}, {}, {}, {}, 0
  notes = {}
end
