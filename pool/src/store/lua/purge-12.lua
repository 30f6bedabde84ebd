#!lua flags=allow-oom
-- While stopping: deletes jobs that nobody runs.
-- KEYS: pool settings jobs payloads owners queue parked errors notifications ended outcomes planned
-- ARGV: inc, limit
-- Returns: OK {id, outcome, ..}, empty when nothing is left | NOTSTOPPING
--@base
--@guard
--@clock
--@settings
--@records
--@outcome
--@notes
--@delete
local head, refusal = guard(true)
if not head then return refusal end
local flag, late_ms, retention_ms = settings('max_dispatch_deadline', 'outcome_retention')
if not is_stopping(flag) then return { 'NOTSTOPPING' } end
local t, limit, count, told = now(), tonumber(argv[2]), 0, {}

-- Deletes those of `keys` that nobody runs; returns how many.
local function drop(keys)
  local before = count
  for _, key in ipairs(keys) do
    if is_full() then break end
    local r = call('HGET', JOBS, key)
    local p = r and parse(r)
    if p and (p.state == 'Q' or p.state == 'A' or p.state == 'P') then
      delete(key, p, t, 'shutdown', late_ms, retention_ms)
      count = count + 1
      told[#told + 1] = p.id
      told[#told + 1] = 'shutdown'
    end
  end
  write_deletions()
  return count - before
end

-- Stopping jobs stay in q until their owners release them: page past them, within bounds.
local from = 0
while count < limit and from <= 4 * limit and not is_full() do
  local keys = call('ZRANGE', QUEUE, from, from + limit - 1)
  if #keys == 0 then break end
  from = from + #keys - drop(keys)
end
if count < limit then drop(call('ZRANGE', PARKED, 0, limit - 1)) end
return { 'OK', told }
