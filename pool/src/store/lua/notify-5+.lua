#!lua
-- Keeps notifications with their jobs, in order; wakes the owner when the first one comes.
-- KEYS: pool settings jobs notifications workers, then the stream of each worker named
-- ARGV: inc, count of workers, a byte per notification: which worker is guessed, 0 none; wid*, then key*, body*
-- Returns: OK, a letter per notification: K kept | B the job's bound is reached | N no such job | R recovering |
--          M the guess is wrong, nothing done | X bad record; then the owner per M
--@base
--@guard
--@clock
--@settings
--@records
--@notes
--@send
--@keep
local head, refusal = guard(true)
if not head then return refusal end
local _, most, most_bytes = settings('notify_cap', 'notify_bytes')
local workers = tonumber(argv[2])
local guess_of, base = argv[3], 3 + workers
local n = (#argv - base) / 2
local of_bodies = base + n
local headers = {}
for i = 1, n do headers[i] = 'h:' .. argv[base + i] end
local stored = call('HMGET', JOBS, unpack(argv, base + 1, of_bodies))
local waiting = call('HMGET', NOTIFICATIONS, unpack(headers))
begin_keeping(call('HGET', POOL, 'notified') or '', most, most_bytes)
local pattern = '^1|([QARSP])|(%d*)|(%d+)' .. REST
local out, letters = { 'OK', '' }, {}

local function answer(i)
  local r = stored[i]
  if not r then return head[2] == 'R' and 'R' or 'N' end
  local state, owner, token = match(r, pattern)
  if not state then return 'X' end
  if state == 'S' then return 'N' end
  local x = byte(guess_of, i)
  local letter =
    keep(argv[base + i], waiting[i], argv[of_bodies + i], state == 'R' and owner, token, x, x > 0 and argv[3 + x])
  if letter == 'M' then out[#out + 1] = owner end
  return letter
end

for i = 1, n do letters[i] = answer(i) end
write_kept(5)
out[2] = table.concat(letters)
return out
