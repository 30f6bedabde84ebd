#!lua
-- Owners, all of one node, take assigned jobs into their hands: no handler starts before. Begun before with the same
-- token: the same answer. Entries of their streams that are finished are deleted.
-- KEYS: pool workers settings jobs payloads queue notifications checkpoints errors, then the stream of each worker named
-- ARGV: inc, count of workers, wid*, count of its finished entries*, count of its jobs*, count of tokens, token*, a
--       byte per job: which token it has; then entry*, key*
-- Returns: OK, a letter per worker, O heard | F fenced | Z shutting down; a letter per job of those that are heard,
--          B begun | N begun, and notifications wait | C, D the same with a checkpoint | L the answer is full;
--          untouched | S refused; then for each that is begun its record and its payload, and for C and D the header and
--          the bytes of its checkpoint
--@base
--@guard
--@clock
--@settings
--@records
--@checkpoints
local head, refusal = guard()
if not head then return refusal end
local workers = tonumber(argv[2])
local of_entries, of_jobs = 2 + workers, 2 + 2 * workers
local members, stopping = call('HMGET', WORKERS, unpack(argv, 3, of_entries)), is_stopping((settings()))
local of_tokens = 3 + 3 * workers
local of_finished = of_tokens + argv[of_tokens] + 1
local token_of, base = argv[of_finished], of_finished
for w = 1, workers do base = base + argv[of_entries + w] end
local n = #argv - base
local stored = n > 0 and call('HMGET', JOBS, unpack(argv, base + 1, base + n))
local out, heard, letters, at = { 'OK', '', '' }, {}, {}, 3
local any_notes, ts = n > 0 and call('EXISTS', NOTIFICATIONS) == 1, num(now())
local any_checkpoints = n > 0 and call('EXISTS', CHECKPOINTS) == 1
local records, unqueued, explained, strays, seen, k, never_begun, bytes = {}, {}, {}, {}, {}, 0, 0, 0
local page, payloads, kept = nil, nil, {} -- payloads and checkpoints are read 16 at a time, and only as far as the answer may go
local last = 0 -- the last job of the workers before
for w = 1, workers do
  local wid, jobs = argv[2 + w], tonumber(argv[of_jobs + w])
  heard[w] = not members[w] and 'F' or stopping and 'Z' or 'O'
  local of_token, mine, first, begun_first = nil, nil, nil, nil
  for i = last + 1, heard[w] == 'O' and last + jobs or 0 do
    local key, token, letter = argv[base + i], argv[of_tokens + byte(token_of, i)], 'S'
    local r = seen[key] or stored[i]
    if r and bytes > 1048576 then
      if find(r, '^1|[AR]|' .. wid .. '|' .. token .. '|') then letter = 'L' end
    elseif r then
      if token ~= of_token then
        of_token, mine = token, '|' .. wid .. '|' .. token
        first, begun_first = '^1|A' .. mine .. '|0|0|%d+(' .. BEHIND .. ')', '1|R' .. mine .. '|1|1|' .. ts .. '%1'
      end
      -- The record as it stands after this call. Most are begun for the first time: one pass.
      local begun, news = gsub(r, first, begun_first, 1)
      local is_new = news == 1
      if not is_new then
        local attempts, flag, behind = match(r, '^1|A' .. mine .. '|(%d+)|([012])|%d+()' .. BEHIND)
        if attempts then
          is_new = true
          if flag == '0' then flag, news = '1', 1 end
          if attempts ~= '0' then explained[#explained + 1] = key end -- it may have waited with an error
          begun = '1|R' .. mine .. '|' .. num(attempts + 1) .. '|' .. flag .. '|' .. ts .. sub(r, behind)
        end
      end
      if is_new or find(r, '^1|R' .. mine .. REST) then
        if is_new then
          never_begun = never_begun + news
          seen[key] = begun
          k = k + 1
          records[2 * k - 1], records[2 * k] = key, begun
          unqueued[k] = key
        end
        if not page or i >= page + 16 then
          page = i
          payloads = call('HMGET', PAYLOADS, unpack(argv, base + i, base + math.min(i + 15, n)))
          if any_checkpoints then kept = checkpoints_of(unpack(argv, base + i, base + math.min(i + 15, n))) end
        end
        local payload = payloads[i - page + 1] or ''
        bytes = bytes + #payload
        out[at + 1], out[at + 2] = begun, payload
        at = at + 2
        letter = any_notes and redis.pcall('HEXISTS', NOTIFICATIONS, 'h:' .. key) == 1 and 'N' or 'B'
        local header, state = kept[2 * (i - page) + 1], kept[2 * (i - page) + 2]
        if news == 1 then
          -- No owner has had this job: a checkpoint is of a job whose record was lost.
          if header or state then strays[#strays + 1] = key end
        elseif header and state and given(header) then
          letter = letter == 'N' and 'D' or 'C'
          bytes = bytes + #state
          out[at + 1], out[at + 2] = header, state
          at = at + 2
        end
      end
    end
    letters[#letters + 1] = letter
  end
  last = last + jobs
end
if k > 0 then
  call('HSET', JOBS, unpack(records))
  call('ZREM', QUEUE, unpack(unqueued))
  if #explained > 0 then redis.pcall('HDEL', ERRORS, unpack(explained)) end
  for _, key in ipairs(strays) do redis.pcall('HDEL', CHECKPOINTS, 'h:' .. key, 'b:' .. key) end
  if never_begun > 0 then count('queued', -never_begun) end
end
out[2], out[3] = table.concat(heard), table.concat(letters)
local entry = of_finished
for w = 1, workers do
  local entries = tonumber(argv[of_entries + w])
  -- A stream that is damaged fails no other worker's jobs.
  if entries > 0 and heard[w] == 'O' then
    redis.pcall('XDEL', KEYS[9 + w], unpack(argv, entry + 1, entry + entries))
  end
  entry = entry + entries
end
return out
