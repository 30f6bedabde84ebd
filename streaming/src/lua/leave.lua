#!lua flags=allow-oom
-- Moves a page of this consumer's pending entries to the consumer that represents all who have left. There
-- any consumer may claim them at once. Deletes this consumer when nothing is pending with it.
-- KEYS: stream
-- ARGV: group, consumer, the consumer that represents all who have left, how many
-- Returns: 1 when there may be more | 0 when all are moved
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local page = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', ARGV[4], ARGV[2])
if #page > 0 then
  local ids = {}
  for i, pending in ipairs(page) do ids[i] = pending[1] end
  ids[#ids + 1] = 'TIME'
  ids[#ids + 1] = 1
  ids[#ids + 1] = 'JUSTID'
  redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[3], 0, unpack(ids))
end
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) > 0 then return 1 end
redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
return 0
