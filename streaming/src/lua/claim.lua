#!lua flags=allow-oom
-- Takes over entries that have been pending for long, with whichever consumer. Those that were deleted meanwhile are
-- no longer pending afterwards. One XAUTOCLAIM looks at ten times as many entries as it is to bring.
-- KEYS: stream
-- ARGV: group, consumer, idle ms, id to begin at, how many, how many to look at when none of them may be taken, the
--       consumer that stands for the settings
-- Returns: {id to go on at or 0-0 at the end, entries, how often each was delivered}
-- Errors: OTHERSETTINGS when other settings hold for the group, or none; nothing is taken then
-- 0 when it is there, without a look at the others. Where there is no group, XAUTOCLAIM says so.
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
