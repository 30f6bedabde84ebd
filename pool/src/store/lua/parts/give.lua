-- The payloads, letters and checkpoints of queued jobs that may be granted, by the numbers of the jobs in the call.
local payloads, letters_of, kept = {}, {}, {}
local free = '^1|Q||%d+|0|([012])|%d+()' .. BEHIND -- no run of the job has failed or was lost

-- The checkpoint of a job that has begun so far, if that and `bytes` are at most `most`. False: the job is not granted.
local function checkpoint_for(key, begun, bytes, most)
  local size = redis.pcall('HSTRLEN', CHECKPOINTS, 'b:' .. key)
  if type(size) ~= 'number' or bytes + size > most then return false end
  local header, state = unpack(checkpoints_of(key))
  -- A checkpoint of a job that no owner has had is of a job whose record was lost: `begin` deletes that.
  if begun == '0' and (header or state) then return false end
  return header and state and given(header) and { header, state } or nil
end

-- Reads payloads and checkpoints of the jobs that have a worker. Jobs with more than `most` bytes are left out. The keys stand in
-- argv behind `base`.
local function read_belongings(stored, worker_of, base, n, most)
  local any_notes, any_checkpoints = call('EXISTS', NOTIFICATIONS) == 1, call('EXISTS', CHECKPOINTS) == 1
  local wanted, keys, bytes_of = {}, {}, {}
  for i = 1, n do
    local key, x = argv[base + i], byte(worker_of, i)
    local begun = x > 0 and stored[i] and match(stored[i], free)
    local so_far = bytes_of[x] or 0
    local bytes = begun and so_far <= GRANT_BYTES and call('HSTRLEN', PAYLOADS, key)
    local fits, saved = bytes and bytes <= most, nil
    if fits and any_checkpoints then
      saved = checkpoint_for(key, begun, bytes, most)
      fits = saved ~= false
    end
    if fits then
      local waits = any_notes and redis.pcall('HEXISTS', NOTIFICATIONS, 'h:' .. key) == 1
      letters_of[i] = saved and (waits and 'D' or 'C') or (waits and 'N' or 'B')
      kept[i] = saved
      wanted[#wanted + 1], keys[#keys + 1], bytes_of[x] = i, key, so_far + bytes
    end
  end
  if #keys == 0 then return end
  local found = call('HMGET', PAYLOADS, unpack(keys))
  for j, i in ipairs(wanted) do payloads[i] = found[j] or '' end
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
