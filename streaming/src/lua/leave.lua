#!lua flags=allow-oom
-- Lets anybody claim at once what is pending with this consumer, a page at a time, and deletes the consumer when
-- nothing is.
-- KEYS: stream
-- ARGV: group, consumer, id behind which to go on, how many
-- Returns: the last id of the page | nil when there was none: it is done
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local page = redis.call('XPENDING', KEYS[1], ARGV[1], '(' .. ARGV[3], '+', ARGV[4], ARGV[2])
if #page > 0 then
  local ids = {}
  for i, pending in ipairs(page) do ids[i] = pending[1] end
  ids[#ids + 1] = 'TIME'
  ids[#ids + 1] = 1
  ids[#ids + 1] = 'JUSTID'
  redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, unpack(ids))
  return page[#page][1]
end
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) == 0 then
  redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
end
return false
