#!lua flags=allow-oom
-- Takes over entries that have been pending for long, with whichever consumer. Those that were deleted meanwhile are
-- no longer pending afterwards.
-- KEYS: stream
-- ARGV: group, consumer, idle ms, id to begin at, how many
-- Returns: {id to go on at or 0-0 at the end, entries, how often each was delivered}
local claimed = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5])
local deliveries = {}
for i, entry in ipairs(claimed[2]) do
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], entry[1], entry[1], 1)
  deliveries[i] = pending[1] and pending[1][4] or 1
end
return {claimed[1], claimed[2], deliveries}
