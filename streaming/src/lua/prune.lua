#!lua flags=allow-oom
-- Deletes the consumers of a group that have been idle for long and have nothing pending; the caller's own stays.
-- KEYS: stream
-- ARGV: group, own consumer, idle ms
-- Returns: how many were deleted
if redis.call('EXISTS', KEYS[1]) == 0 then return redis.error_reply('NOGROUP no such stream') end
local pruned = 0
for _, info in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local consumer = {}
  for i = 1, #info, 2 do consumer[info[i]] = info[i + 1] end
  if consumer.name ~= ARGV[2] and consumer.pending == 0 and consumer.idle >= tonumber(ARGV[3]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer.name)
    pruned = pruned + 1
  end
end
return pruned
