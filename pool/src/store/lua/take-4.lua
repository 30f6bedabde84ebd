#!lua flags=allow-oom
-- The owner acknowledges notifications, all that are numbered below `ack`, and fetches the next: at most 16 a job, and
-- 256 KiB in all, but one of each job that has any. So an empty answer says that nothing waits. Entries of its stream
-- that are finished are deleted.
-- KEYS: m jo jn ws
-- ARGV: inc, wid, count of entries, entry*, count of tokens, token*, a byte per job: which token it has; then key*, ack*
-- Returns: OK, a letter per job, E nothing waits | O one | M more | S not the owner; then per O its number and its body,
--          per M {number of the first, body, ..}
--@base
--@guard
--@records
--@notes
local head, refusal = guard()
if not head then return refusal end
local wid, entries = argv[2], tonumber(argv[3])
local of_tokens = 4 + entries
local base = of_tokens + argv[of_tokens] + 1
local token_of, n = argv[base], (#argv - base) / 2
local of_acks = base + n
local out, letters, seen, gone = { 'OK', '' }, {}, {}, {}

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
    call('HSET', JN, 'h:' .. key, num(keep) .. '|' .. num(next_) .. '|' .. num(math.max(size, 0)))
  else
    gone[#gone + 1] = 'h:' .. key
  end
  if #gone > 4000 then delete() end
  return keep
end

-- Adds the notifications of a job that follow its first one, as far as the answer may go. It has `bytes` bytes before;
-- returns how many it has after.
local function add(taken, key, first, next_, bytes)
  for seq = first + 1, math.min(first + 16, next_) - 1 do
    if bytes > 262144 then break end
    local body = call('HGET', JN, num(seq) .. ':' .. key) or ''
    taken[#taken + 1] = body
    bytes = bytes + #body
  end
  return bytes
end

if n > 0 then
  local headers, fields, texts, more = {}, {}, {}, {}
  for i = 1, n do headers[i] = 'h:' .. argv[base + i] end
  local stored, waiting = call('HMGET', JO, unpack(argv, base + 1, of_acks)), call('HMGET', JN, unpack(headers))
  local rest, last, running, length = '^' .. REST, nil, nil, nil
  for i = 1, n do
    local key, token, r, letter = argv[base + i], argv[of_tokens + byte(token_of, i)], stored[i], 'S'
    if token ~= last then
      last, running = token, '1|R|' .. wid .. '|' .. token
      length = #running
    end
    if r and sub(r, 1, length) == running and find(r, rest, length + 1) and not seen[key] then
      seen[key] = true
      letter = 'E'
      local text, was, ending, size = span_of(waiting[i] or '')
      if text then
        local first = acknowledge(key, was, ending, size, tonumber(argv[of_acks + i]), text)
        if first < ending then
          if first > was then text = num(first) end
          local j = #fields + 1
          fields[j], texts[j], letter = text .. ':' .. key, text, 'O'
          if first + 1 < ending then more[j], letter = { key = key, first = first, next_ = ending }, 'M' end
        end
      end
    end
    letters[i] = letter
  end
  delete()
  if #fields > 0 then
    local bodies, bytes, at = call('HMGET', JN, unpack(fields)), 0, 2
    for j = 1, #fields do
      local body, job = bodies[j] or '', more[j]
      bytes = bytes + #body
      if job then
        local taken = { texts[j], body }
        bytes, at = add(taken, job.key, job.first, job.next_, bytes), at + 1
        out[at] = taken
      else
        out[at + 1], out[at + 2], at = texts[j], body, at + 2
      end
    end
  end
end
-- A stream that is damaged fails no job.
if entries > 0 then redis.pcall('XDEL', WS, unpack(argv, 4, 3 + entries)) end
out[2] = table.concat(letters)
return out
