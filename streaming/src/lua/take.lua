#!lua flags=allow-oom
-- Delivers again the entries that are pending with this very consumer. Entries that another consumer has by
-- now stay there; deleted ones are no longer pending afterwards.
-- KEYS: stream
-- ARGV: group, consumer, then ids
-- Returns: {entries, number of deliveries of each}
local entries, deliveries = {}, {}
for i = 3, #ARGV do
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2])
  if pending[1] then
    local entry = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i])
    if entry[1] then
      entries[#entries + 1] = entry[1]
      deliveries[#deliveries + 1] = pending[1][4] + 1
    end
  end
end
return {entries, deliveries}
