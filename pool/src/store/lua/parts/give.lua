-- The payloads, letters and checkpoints of queued jobs that may be granted, by the numbers of the jobs in the call.
local payloads, letters_of, kept = {}, {}, {}
local free = '^1|Q||%d+|0|([012])|%d+()' .. BEHIND -- no run of the job has failed or was lost

-- The headers of the checkpoints of these jobs, by their numbers. Nil: `checkpoints` is of another type.
local function headers_by_job(begun_of, base, n)
  local jobs, fields, headers = {}, {}, {}
  for i = 1, n do
    if begun_of[i] then jobs[#jobs + 1], fields[#fields + 1] = i, 'h:' .. argv[base + i] end
  end
  if #jobs == 0 or call('EXISTS', CHECKPOINTS) == 0 then return headers end
  local found = redis.pcall('HMGET', CHECKPOINTS, unpack(fields))
  if found.err then return nil end
  for j, i in ipairs(jobs) do headers[i] = found[j] end
  return headers
end

-- The bytes of a job's payload and checkpoint, if the job may be granted for them.
local function bytes_within(most, key, begun, header)
  local bytes = call('HSTRLEN', PAYLOADS, key)
  if header and bytes <= most then
    -- A checkpoint of a job that no owner has had is of a job whose record was lost: `begin` deletes that.
    if begun == '0' then return nil end
    bytes = bytes + call('HSTRLEN', CHECKPOINTS, 'b:' .. key)
  end
  return bytes <= most and bytes or nil
end

-- Reads payloads and checkpoints of the jobs that have a worker. Jobs with more than `most` bytes are left out. The keys stand in
-- argv behind `base`.
local function read_belongings(stored, worker_of, base, n, most)
  local begun_of, any_notes = {}, call('EXISTS', NOTIFICATIONS) == 1
  for i = 1, n do
    begun_of[i] = byte(worker_of, i) > 0 and stored[i] and match(stored[i], free)
  end
  local headers = headers_by_job(begun_of, base, n)
  if not headers then return end
  local wanted, keys, saved, states, bytes_of = {}, {}, {}, {}, {}
  for i = 1, n do
    local key, x, header = argv[base + i], byte(worker_of, i), headers[i]
    local so_far = bytes_of[x] or 0
    local bytes = begun_of[i] and so_far <= GRANT_BYTES and bytes_within(most, key, begun_of[i], header)
    if bytes then
      letters_of[i] = any_notes and redis.pcall('HEXISTS', NOTIFICATIONS, 'h:' .. key) == 1 and 'N' or 'B'
      wanted[#wanted + 1], keys[#keys + 1], bytes_of[x] = i, key, so_far + bytes
      if header and given(header) then saved[#saved + 1], states[#states + 1] = i, 'b:' .. key end
    end
  end
  if #keys == 0 then return end
  local found = call('HMGET', PAYLOADS, unpack(keys))
  for j, i in ipairs(wanted) do payloads[i] = found[j] or '' end
  if #saved == 0 then return end
  found = call('HMGET', CHECKPOINTS, unpack(states))
  for j, i in ipairs(saved) do
    if found[j] then
      kept[i], letters_of[i] = { headers[i], found[j] }, letters_of[i] == 'N' and 'D' or 'C'
    end
  end
end

-- Adds job `i` to the grant, if it may be granted, and there is room. Returns its record then.
local function give(grant, i, key, r, ts)
  local payload, saved = payloads[i], kept[i]
  if not payload then return nil end
  local bytes = #payload + (saved and #saved[2] or 0)
  if grant.bytes + bytes > GRANT_BYTES then return nil end
  local flag, behind = match(r, free)
  local record, j = grant.front .. flag .. '|' .. ts .. sub(r, behind), grant.n
  grant[j + 1], grant[j + 2], grant[j + 3], grant[j + 4] = key, record, letters_of[i], payload
  j = j + 4
  if saved then
    grant[j + 1], grant[j + 2] = saved[1], saved[2]
    j = j + 2
  end
  grant.n, grant.bytes = j, grant.bytes + bytes
  return record
end
