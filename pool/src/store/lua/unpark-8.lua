#!lua
-- Parked jobs are tried again, each named with its dispatch: their attempts and strikes start anew. A paused one stays.
-- KEYS: pool settings jobs owners queue parked errors starts
-- ARGV: inc, then (key, id)*
-- Returns: OK, then one by one a letter per job: Q queued | L it lives and is not parked | Y it is paused |
--          N no such job | R recovering, it may be running unseen | X bad record. SHUTDOWN
--@base
--@guard
--@clock
--@settings
--@records
--@paused
--@requeue
--@why
local head, refusal = guard(true)
if not head then return refusal end
local flag, route_ms = settings('route_timeout')
if is_stopping(flag) then return { 'SHUTDOWN' } end
local n, t = (#argv - 1) / 2, now()
local keys, jobs = {}, {}
for i = 1, n do keys[i] = argv[2 * i] end
local stored = call('HMGET', JOBS, unpack(keys))
for i = 1, n do jobs[keys[i]] = stored[i] and (parse(stored[i]) or 'bad') or nil end
local out, unparked = { 'OK' }, {}

local function answer(key, id)
  local p = jobs[key]
  if p == 'bad' then return 'X' end
  if not p and head[2] == 'R' then return 'R' end
  if not p or p.id ~= id then return 'N' end
  if p.state ~= 'P' then return 'L' end
  if is_paused(p) then return 'Y' end
  p.attempts, p.strikes = '0', '0'
  unparked[#unparked + 1] = key
  because(p, 'u')
  return requeue(key, p, t, 0, route_ms, math.huge, '')
end

for i = 1, n do out[i + 1] = answer(keys[i], argv[2 * i + 1]) end
if #unparked > 0 then
  call('ZREM', PARKED, unpack(unparked))
  redis.pcall('HDEL', ERRORS, unpack(unparked))
end
write_requeues()
return out
