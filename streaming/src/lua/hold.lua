#!lua flags=allow-oom
-- Sets since when entries have been pending with this consumer: now, to keep them, or 1970, to let any
-- consumer claim them at once. Leaves entries alone that are pending with another consumer, or not pending.
-- KEYS: stream
-- ARGV: group, consumer, 'keep' or 'release', then ids
-- Returns: the ids that are pending with this consumer
local held = {}
for i = 4, #ARGV do
  if redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2])[1] then
    local claimed
    if ARGV[3] == 'keep' then
      claimed = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'IDLE', 0, 'JUSTID')
    else
      claimed = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'TIME', 1, 'JUSTID')
    end
    if claimed[1] then held[#held + 1] = claimed[1] end
  end
end
return held
