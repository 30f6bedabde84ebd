-- Reads bodies of a log.
-- KEYS: stream, heads
-- ARGV: log, first index, the most bodies
-- Returns: {0, body*} up to the first index that is not there
--   | {1, first index left or ''} when the first one is gone
--   | {2, head} when the log ends before the index ahead of the first one
local entries = redis.call('XRANGE', KEYS[1], '0-' .. ARGV[2], '+', 'COUNT', ARGV[3])
local reply, first = { 0 }, tonumber(ARGV[2])
for i, entry in ipairs(entries) do
  local index = string.match(entry[1], '^0%-(%d+)$')
  if not index then return redis.error_reply('DAMAGED an entry has no index') end
  if tonumber(index) ~= first + i - 1 then
    if i == 1 then return { 1, index } end
    break
  end
  reply[i + 1] = entry[2][2]
end
if #entries == 0 then
  local head = redis.call('HGET', KEYS[2], ARGV[1]) or '0'
  if tonumber(head) >= first then return { 1, '' } end
  if head + 1 < first then return { 2, head } end
end
return reply
