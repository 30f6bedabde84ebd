-- Appends bodies to a log, in their order. For an input only once.
-- KEYS: stream, heads, inputs, floors
-- ARGV: channel, log, input or '', the input up to which the feeder has stored its progress, mark, body*
-- Returns: {first index, count, 1 when an earlier call has appended them | 0} | {'LATE', floor}
local stream, heads, inputs, floors = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local channel, log, input, mark = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[5]
-- A key of another type raises here, before anything is written.
redis.call('XLEN', stream)
redis.call('HLEN', heads)
if input then
  local floor = math.max(tonumber(ARGV[4]), tonumber(redis.call('HGET', floors, log) or 0))
  if input <= floor then return { 'LATE', string.format('%.0f', floor) } end
  local before = redis.call('ZRANGEBYSCORE', inputs, input, input)[1]
  if before then
    local first, count = string.match(before, ':(%d+):(%d+)$')
    return { first, count, 1 }
  end
  redis.call('HSET', floors, log, string.format('%.0f', floor))
  redis.call('ZREMRANGEBYSCORE', inputs, '-inf', floor)
end
local first, last
for i = 6, #ARGV do
  -- The next number of the stream, whatever was trimmed. The mark tells it from another entry with its number.
  last = string.match(redis.call('XADD', stream, '0-*', 'b', ARGV[i], 'm', mark), '^0%-(%d+)$')
  first = first or last
end
local count = #ARGV - 5
if count == 0 then
  last = redis.call('HGET', heads, log) or '0'
  first = string.format('%.0f', last + 1)
end
if input then
  redis.call('ZADD', inputs, input, ARGV[3] .. ':' .. first .. ':' .. count)
end
if count > 0 then
  redis.call('HSET', heads, log, last)
  redis.call('SPUBLISH', channel, last .. ' ' .. log)
end
return { first, tostring(count), 0 }
