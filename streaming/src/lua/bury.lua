#!lua flags=allow-oom
-- Deletes consumers that have not asked for anything for long. What is pending with one of them is moved to the caller
-- first, where anybody may claim it at once; a consumer that still has something pending is never deleted. One that
-- was alive after all is there again with its next read. The caller shows that it lives: a read that finds nothing
-- does not count as a sign of life in Redis 7.0, one of its own pending entries does. It begins behind the last but one
-- id that there can be: the very last one would mean new entries.
-- KEYS: stream
-- ARGV: group, own consumer, idle ms, how many entries to move at most
-- Returns: {how many consumers were deleted, how many entries were moved}
redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', 1, 'STREAMS', KEYS[1],
  '18446744073709551615-18446744073709551614')
local deleted, moved, idle, most = 0, 0, tonumber(ARGV[3]), tonumber(ARGV[4])
for _, info in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local consumer = {}
  for i = 1, #info, 2 do consumer[info[i]] = info[i + 1] end
  if consumer.name ~= ARGV[2] and consumer.idle >= idle and (consumer.pending == 0 or moved < most) then
    local page = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', most - moved, consumer.name)
    if #page > 0 then
      local words = {}
      for i, pending in ipairs(page) do words[i] = pending[1] end
      words[#words + 1] = 'TIME'
      words[#words + 1] = 1
      words[#words + 1] = 'JUSTID'
      redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, unpack(words))
      moved = moved + #page
    end
    if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, consumer.name) == 0 then
      redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer.name)
      deleted = deleted + 1
    end
  end
end
return {deleted, moved}
