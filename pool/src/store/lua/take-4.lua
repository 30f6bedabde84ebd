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
local out, seen, bytes = { 'OK' }, {}, 0

-- Drops what is acknowledged; returns the number of the first that is left.
local function acknowledge(key, first, next_, size, ack)
  local keep = math.min(ack, next_)
  if keep <= first then return first end
  local fields = {}
  for seq = first, keep - 1 do
    fields[#fields + 1] = num(seq) .. ':' .. key
    size = size - call('HSTRLEN', JN, fields[#fields])
  end
  if keep >= next_ then
    fields[#fields + 1] = 'h:' .. key
  else
    call('HSET', JN, 'h:' .. key, num(keep) .. '|' .. num(next_) .. '|' .. num(size))
  end
  call('HDEL', JN, unpack(fields))
  return keep
end

local function take(key, ack)
  local header = call('HGET', JN, 'h:' .. key)
  local first, next_, size = match(header or '', '^(%d+)|(%d+)|(%d+)$')
  if not first then return {} end
  first, next_ = tonumber(first), tonumber(next_)
  first = acknowledge(key, first, next_, tonumber(size), ack)
  if first >= next_ then return {} end
  local taken = { num(first) }
  for seq = first, math.min(first + 16, next_) - 1 do
    if bytes > 262144 and #taken > 1 then break end
    local body = call('HGET', JN, num(seq) .. ':' .. key) or ''
    taken[#taken + 1] = body
    bytes = bytes + #body
  end
  return taken
end

if n > 0 then
  local keys = {}
  for i = 1, n do keys[i] = argv[base + 3 * i - 2] end
  local stored = call('HMGET', JO, unpack(keys))
  for i = 1, n do
    local at = base + 3 * i - 2
    local key, r, reply = keys[i], stored[i], false
    if r and not seen[key] then
      local owner, token = match(r, pattern)
      if owner == wid and token == argv[at + 1] then
        seen[key] = true
        reply = take(key, tonumber(argv[at + 2]))
      end
    end
    out[i + 1] = reply
  end
end
if entries > 0 then call('XDEL', WS, unpack(argv, 4, 3 + entries)) end
return out
