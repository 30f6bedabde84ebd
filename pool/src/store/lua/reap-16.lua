#!lua flags=allow-oom
-- Frees jobs of an expired worker: stopping ones end, others are queued again, some after a pause, or parked. The last
-- call deletes the worker's stream.
-- KEYS: pool settings jobs payloads owners queue parked errors notifications checkpoints starts ended outcomes
--       planned expired worker
-- ARGV: inc, wid, limit
-- Returns: MORE count {id, outcome, ..} | DONE count {id, outcome, ..} | GONE
--@base
--@guard
--@clock
--@settings
--@records
--@outcome
--@notes
--@delete
--@requeue
--@why
--@suspect
local head, refusal = guard()
if not head then return refusal end
local wid, limit = argv[2], tonumber(argv[3])
local dead = call('HGET', EXPIRED, wid)
if not dead then return { 'GONE' } end
local heard = tonumber(match(dead, '^(%d+)|')) or 0
local flag, late_ms, retention_ms, max_attempts, stable_ms, route_ms, ttl =
  settings('max_dispatch_deadline', 'outcome_retention', 'max_attempts', 'stable_run', 'route_timeout', 'worker_ttl')
local stopping, t, prefix = is_stopping(flag), now(), wid .. ':'
local members = call('ZRANGEBYLEX', OWNERS, '[' .. prefix, '(' .. wid .. ';', 'LIMIT', 0, limit)
local told = {}
local function tell(id, outcome)
  told[#told + 1] = id
  told[#told + 1] = outcome
end
local freed = 0
for _, member in ipairs(members) do
  if is_full() then break end
  freed = freed + 1
  local key = sub(member, #prefix + 1)
  local r = call('HGET', JOBS, key)
  local p = r and parse(r)
  if not p or p.owner ~= wid then
    call('ZREM', OWNERS, member)
  elseif p.state == 'S' or stopping then
    local outcome = p.state == 'S' and 'stopped' or 'shutdown'
    delete(key, p, t, outcome, late_ms, retention_ms)
    tell(p.id, outcome)
  else
    local delay = p.state == 'R' and suspect(key, p, heard, stable_ms, ttl) or 0
    because(p, 'l')
    if requeue(key, p, t, delay, route_ms, max_attempts, 'worker lost') == 'P' then tell(p.id, 'parked') end
  end
end
write_deletions()
write_requeues()
if freed == #members and freed < limit then
  call('DEL', WORKER)
  call('HDEL', EXPIRED, wid)
  return { 'DONE', freed, told }
end
return { 'MORE', freed, told }
