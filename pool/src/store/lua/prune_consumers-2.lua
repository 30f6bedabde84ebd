#!lua flags=allow-oom
-- Forgets consumers that were idle for long and hold nothing.
-- KEYS: m ps
-- ARGV: inc, idle ms
-- Returns: OK
--@base
--@guard
local head, refusal = guard(true)
if not head then return refusal end
local ok, consumers = pcall(call, 'XINFO', 'CONSUMERS', PS, 'r')
if not ok then return { 'OK' } end
for _, fields in ipairs(consumers) do
  local consumer = {}
  for i = 1, #fields, 2 do consumer[fields[i]] = fields[i + 1] end
  if consumer.pending == 0 and consumer.idle >= tonumber(argv[2]) then
    call('XGROUP', 'DELCONSUMER', PS, 'r', consumer.name)
  end
end
return { 'OK' }
