#!lua flags=allow-oom
-- Takes over entries that have been pending for long, with any consumer. Entries that were deleted meanwhile
-- are no longer pending afterwards. One XAUTOCLAIM looks at up to ten times its COUNT of entries.
-- KEYS: stream
-- ARGV: group, consumer, idle ms, id to begin at, most entries to claim, number to look at when none may be
-- claimed, the consumer that represents the settings
-- Returns: {id to continue at or 0-0 at the end, entries, number of deliveries of each}
-- Errors: OTHERSETTINGS when other settings hold for the group, or none; nothing is taken then
-- CREATECONSUMER answers 0 when the settings are there, without a look at other consumers. Without a group
-- XAUTOCLAIM fails.
if redis.pcall('XGROUP', 'CREATECONSUMER', KEYS[1], ARGV[1], ARGV[7]) == 1 then
  redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[7])
  return redis.error_reply('OTHERSETTINGS the group has other settings, or none')
end
local from, claimed, looked_at = ARGV[4], nil, 0
repeat
  claimed = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], from, 'COUNT', ARGV[5])
  from = claimed[1]
  looked_at = looked_at + 10 * ARGV[5]
until #claimed[2] > 0 or from == '0-0' or looked_at >= tonumber(ARGV[6])
local deliveries = {}
for i, entry in ipairs(claimed[2]) do
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], entry[1], entry[1], 1)
  deliveries[i] = pending[1] and pending[1][4] or 1
end
return {from, claimed[2], deliveries}
