#!lua
-- The owner takes assigned jobs into its hands: no handler starts before. Begun before with the same token: the same
-- answer. Entries of its stream that are finished are deleted.
-- KEYS: m w cf jo jp q jn ws
-- ARGV: inc, wid, count of entries, entry*, then (key, token)*
-- Returns: OK, then per job three values, its record, 0|1 (notifications wait) and its payload | one value, L (the answer
--          is full; untouched) or nil (refused). FENCED | SHUTDOWN
--@base
--@guard
--@clock
--@settings
--@records
local head, refusal = guard()
if not head then return refusal end
local wid = argv[2]
if call('HEXISTS', W, wid) == 0 then return { 'FENCED' } end
if is_stopping((settings())) then return { 'SHUTDOWN' } end
local entries = tonumber(argv[3])
local base = 3 + entries
local n = (#argv - base) / 2
local out = { 'OK' }
if n > 0 then
  local keys = {}
  for i = 1, n do keys[i] = argv[base + 2 * i - 1] end
  local stored, any_notes, ts = call('HMGET', JO, unpack(keys)), call('EXISTS', JN) == 1, num(now())
  local pattern = '^%d+()|[012]|%d+()|' .. ID .. '|%d+|%d*|%d+|'
  local records, unqueued, seen, k, never_begun, bytes, at = {}, {}, {}, 0, 0, 0, 1
  local last, assigned, running, length
  local page, payloads = nil, nil -- payloads are read 16 at a time, and only as far as the answer may go

  -- The record as it stands after this call, or nil when it is not this worker's under this token.
  local function take_up(r, key, token)
    if token ~= last then
      last = token
      assigned, running = '1|A|' .. wid .. '|' .. token .. '|', '1|R|' .. wid .. '|' .. token .. '|'
      length = #assigned
    end
    local start = sub(r, 1, length)
    if start ~= assigned and start ~= running then return nil end
    -- Behind the attempts, and behind the time since when: the flag of its begin is between the two.
    local behind, rest = match(r, pattern, length + 1)
    if not behind or start == running then return behind and r end
    local attempts, begun = sub(r, length + 1, behind - 1), sub(r, behind, behind + 2)
    if begun == '|0|' then
      never_begun = never_begun + 1
      begun = '|1|'
    end
    r = running .. (attempts == '0' and '1' or num(attempts + 1)) .. begun .. ts .. sub(r, rest)
    seen[key] = r
    k = k + 1
    records[2 * k - 1], records[2 * k] = key, r
    unqueued[k] = key
    return r
  end

  for i = 1, n do
    local key, reply = keys[i], false
    at = at + 1
    local r = seen[key] or stored[i]
    if r then
      if bytes > 1048576 then
        local token = argv[base + 2 * i]
        local mine = '|' .. wid .. '|' .. token .. '|'
        if (sub(r, 1, 3) == '1|A' or sub(r, 1, 3) == '1|R') and sub(r, 4, 3 + #mine) == mine then reply = 'L' end
      else
        r = take_up(r, key, argv[base + 2 * i])
        if r then
          if not page or i >= page + 16 then
            page = i
            payloads = call('HMGET', JP, unpack(keys, i, math.min(i + 15, n)))
          end
          local payload = payloads[i - page + 1] or ''
          bytes = bytes + #payload
          reply = r
          out[at + 1], out[at + 2] = any_notes and call('HEXISTS', JN, 'h:' .. key) or 0, payload
        end
      end
    end
    out[at] = reply
    if reply and reply ~= 'L' then at = at + 2 end
  end
  if k > 0 then
    call('HSET', JO, unpack(records))
    call('ZREM', Q, unpack(unqueued))
    if never_begun > 0 then call('HINCRBY', M, 'nq', -never_begun) end
  end
end
if entries > 0 then call('XDEL', WS, unpack(argv, 4, 3 + entries)) end
return out
