#!lua flags=allow-oom
-- The owner acknowledges notifications, all that are numbered below `ack`, and fetches the next: at most 16 a job, and
-- 256 KiB in all, but one of each job that has any: an empty answer says that nothing waits. Entries of its stream that
-- are finished are deleted.
-- KEYS: m jo jn ws
-- ARGV: inc, wid, count of entries, entry*, then (key, token, ack)*
-- Returns: OK, then per job {number of the first, body, ..}, {} when nothing waits | nil not the owner
--@base
--@guard
--@records
local head, refusal = guard()
if not head then return refusal end
local wid, entries = argv[2], tonumber(argv[3])
local base = 3 + entries
local n = (#argv - base) / 3
local pattern = '^1|R|(%d+)|(%d+)' .. REST
local out, seen, gone = { 'OK' }, {}, {}

-- Deletes what was collected; a job adds about 1,000 fields at most.
local function delete()
  if #gone > 0 then call('HDEL', JN, unpack(gone)) end
  gone = {}
end

-- Drops what is acknowledged; returns the number of the first that is left. Its number as it stands there is `text`.
local function acknowledge(key, first, next_, size, ack, text)
  local keep = math.min(ack, next_)
  if keep <= first then return first end
  for seq = first, keep - 1 do
    local field = (seq == first and text or num(seq)) .. ':' .. key
    gone[#gone + 1] = field
    if keep < next_ then size = size - call('HSTRLEN', JN, field) end
  end
  if keep < next_ then
    call('HSET', JN, 'h:' .. key, num(keep) .. '|' .. num(next_) .. '|' .. num(size))
  else
    gone[#gone + 1] = 'h:' .. key
  end
  if #gone > 4000 then delete() end
  return keep
end

-- The first body of each job that has any is there already; adds the next ones, as far as the answer may go.
local function answer(jobs, bodies)
  local bytes = 0
  for j = 1, #jobs do
    local job, body = jobs[j], bodies[j] or ''
    local taken = { job.text, body }
    bytes = bytes + #body
    for seq = job.first + 1, math.min(job.first + 16, job.next_) - 1 do
      if bytes > 262144 then break end
      body = call('HGET', JN, num(seq) .. ':' .. job.key) or ''
      taken[#taken + 1] = body
      bytes = bytes + #body
    end
    out[job.i + 1] = taken
  end
end

if n > 0 then
  local keys, headers, jobs, firsts = {}, {}, {}, {}
  for i = 1, n do
    keys[i] = argv[base + 3 * i - 2]
    headers[i] = 'h:' .. keys[i]
  end
  local stored, waiting = call('HMGET', JO, unpack(keys)), call('HMGET', JN, unpack(headers))
  for i = 1, n do
    local at = base + 3 * i - 2
    local key, r, reply = keys[i], stored[i], false
    if r and not seen[key] then
      local owner, token = match(r, pattern)
      if owner == wid and token == argv[at + 1] then
        seen[key] = true
        reply = {}
        local first, next_, size = match(waiting[i] or '', '^(%d+)|(%d+)|(%d+)$')
        if first then
          local text, was = first, tonumber(first)
          next_ = tonumber(next_)
          first = acknowledge(key, was, next_, tonumber(size), tonumber(argv[at + 2]), text)
          if first < next_ then
            if first > was then text = num(first) end
            jobs[#jobs + 1] = { i = i, key = key, first = first, next_ = next_, text = text }
            firsts[#firsts + 1] = text .. ':' .. key
          end
        end
      end
    end
    out[i + 1] = reply
  end
  delete()
  if #jobs > 0 then answer(jobs, call('HMGET', JN, unpack(firsts))) end
end
if entries > 0 then call('XDEL', WS, unpack(argv, 4, 3 + entries)) end
return out
