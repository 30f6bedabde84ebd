#!lua flags=allow-oom
-- Deletes consumers that have been idle for long and have nothing pending, because others have claimed it. A
-- consumer that was alive after all is back with its next read. The caller shows a sign of life with a read
-- of its own pending entries: in Redis 7.0 a read that finds nothing new does not count. The read begins
-- behind the last id but one, because the very last id would mean new entries.
-- KEYS: stream
-- ARGV: group, own consumer, idle ms, the consumer that represents the settings
-- Returns: how many consumers were deleted
-- Errors: OTHERSETTINGS when other settings hold for the group, or none; nothing is deleted then
redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', 1, 'STREAMS', KEYS[1],
  '18446744073709551615-18446744073709551614')
local idle, dead, is_agreed = tonumber(ARGV[3]), {}, false
for _, info in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local consumer = {}
  for i = 1, #info, 2 do consumer[info[i]] = info[i + 1] end
  if consumer.name == ARGV[4] then
    is_agreed = true
  elseif consumer.name ~= ARGV[2] and consumer.idle >= idle and consumer.pending == 0 then
    dead[#dead + 1] = consumer.name
  end
end
if not is_agreed then return redis.error_reply('OTHERSETTINGS the group has other settings, or none') end
for _, name in ipairs(dead) do redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], name) end
return #dead
