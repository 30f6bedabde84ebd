#!lua
-- The owner takes assigned jobs into its hands: no handler starts before. Begun before with the same token: the same
-- answer. Entries of its stream that are finished are deleted.
-- KEYS: m w cf jo jp q jn ws
-- ARGV: inc, wid, count of entries, entry*, then key*, token*
-- Returns: OK, a letter per job, B begun | N begun, and notifications wait | L the answer is full; untouched | S refused;
--          then for each that is begun its record and its payload. FENCED | SHUTDOWN
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
local out, letters = { 'OK', '' }, {}
if n > 0 then
  local stored = call('HMGET', JO, unpack(argv, base + 1, base + n))
  local any_notes, ts = call('EXISTS', JN) == 1, num(now())
  local records, unqueued, seen, k, never_begun, bytes, at = {}, {}, {}, 0, 0, 0, 2
  local last, mine, running, assigned, first, begun_first
  local page, payloads = nil, nil -- payloads are read 16 at a time, and only as far as the answer may go

  -- The record as it stands after this call, or nil when it is not this worker's under this token.
  local function take_up(r, key, token)
    if token ~= last then
      last, mine = token, '|' .. wid .. '|' .. token
      running, assigned = '^1|R' .. mine .. REST, '^1|A' .. mine .. '|(%d+)|([012])|%d+()' .. BEHIND
      first, begun_first = '^1|A' .. mine .. '|0|0|%d+(' .. BEHIND .. ')', '1|R' .. mine .. '|1|1|' .. ts .. '%1'
    end
    -- Most are begun for the first time: one pass.
    local begun, news = gsub(r, first, begun_first, 1)
    if news == 0 then
      local attempts, flag, behind = match(r, assigned)
      if not attempts then return find(r, running) and r end
      if flag == '0' then flag, news = '1', 1 end
      begun = '1|R' .. mine .. '|' .. num(attempts + 1) .. '|' .. flag .. '|' .. ts .. sub(r, behind)
    end
    never_begun = never_begun + news
    seen[key] = begun
    k = k + 1
    records[2 * k - 1], records[2 * k] = key, begun
    unqueued[k] = key
    return begun
  end

  for i = 1, n do
    local key, token, letter = argv[base + i], argv[base + n + i], 'S'
    local r = seen[key] or stored[i]
    if r and bytes > 1048576 then
      if find(r, '^1|[AR]|' .. wid .. '|' .. token .. '|') then letter = 'L' end
    elseif r then
      r = take_up(r, key, token)
      if r then
        if not page or i >= page + 16 then
          page = i
          payloads = call('HMGET', JP, unpack(argv, base + i, base + math.min(i + 15, n)))
        end
        local payload = payloads[i - page + 1] or ''
        bytes = bytes + #payload
        letter = any_notes and call('HEXISTS', JN, 'h:' .. key) == 1 and 'N' or 'B'
        out[at + 1], out[at + 2] = r, payload
        at = at + 2
      end
    end
    letters[i] = letter
  end
  if k > 0 then
    call('HSET', JO, unpack(records))
    call('ZREM', Q, unpack(unqueued))
    if never_begun > 0 then call('HINCRBY', M, 'nq', -never_begun) end
  end
end
out[2] = table.concat(letters)
if entries > 0 then call('XDEL', WS, unpack(argv, 4, 3 + entries)) end
return out
