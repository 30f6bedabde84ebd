#!lua flags=allow-oom
-- A worker's last word in phase R, after its attestations: what it owns and has not attested in this incarnation is not
-- in its hands. That is queued again or parked, and gone if it was to end. The last call says that the worker is done.
-- KEYS: pool workers settings jobs payloads owners queue parked errors notifications checkpoints starts
--       ended outcomes planned
-- ARGV: inc, wid, last key of the page before or '', limit
-- Returns: MORE last key | DONE | NORMAL | FENCED
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
local head, refusal = guard(true)
if not head then return refusal end
if head[2] ~= 'R' then return { 'NORMAL' } end
local wid, limit = argv[2], tonumber(argv[4])
if call('HEXISTS', WORKERS, wid) == 0 then return { 'FENCED' } end
local _, late_ms, retention_ms, max_attempts, stable_ms, route_ms =
  settings('max_dispatch_deadline', 'outcome_retention', 'max_attempts', 'stable_run', 'route_timeout')
local t, prefix = now(), wid .. ':'
local from = (argv[3] == '' and '[' or '(') .. prefix .. argv[3]
local members = call('ZRANGEBYLEX', OWNERS, from, '(' .. wid .. ';', 'LIMIT', 0, limit)
local seen = 0
for _, member in ipairs(members) do
  if is_full() then break end
  seen = seen + 1
  local key = sub(member, #prefix + 1)
  local r = call('HGET', JOBS, key)
  local p = r and parse(r)
  if not r or p and p.owner ~= wid then
    call('ZREM', OWNERS, member)
  elseif p and p.ainc ~= argv[1] then
    if p.state == 'S' then
      delete(key, p, t, 'stopped', late_ms, retention_ms)
    else
      if p.state == 'R' and t - p.since >= stable_ms then p.attempts = '1' end
      because(p, 'n')
      requeue(key, p, t, 0, route_ms, max_attempts, 'its owner did not have it after a loss of data')
    end
  end
end
write_deletions()
write_requeues()
if seen == limit or seen < #members then return { 'MORE', sub(members[seen], #prefix + 1) } end
call('HSET', POOL, 'attested:' .. wid, argv[1])
return { 'DONE' }
