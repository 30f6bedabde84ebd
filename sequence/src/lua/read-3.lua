-- Reads bodies of a log.
-- KEYS: stream, heads
-- ARGV: log, first index, the index ahead of it, the mark of its entry when that was seen or '', the most bodies
-- Returns: {0, mark, body*}: the bodies up to the first index that is not there. The mark is that of the last body's
--          entry. Without bodies it is that of the entry ahead of the first one. An entry without a mark has ''.
--          {1, index}: the first one is gone. The index is the first that is left, or ''.
--          {2, head}: the log ends before the index ahead of the first one.
--          {3}: the entry ahead of the first one is another one by now.
local first, before, mark, most = tonumber(ARGV[2]), '0-' .. ARGV[3], ARGV[4], tonumber(ARGV[5])
local entries = redis.call('XRANGE', KEYS[1], before, '+', 'COUNT', most + 1)
local reply = { 0, '' }
if entries[1] and entries[1][1] == before then
  reply[2] = entries[1][2][4] or ''
  if mark ~= '' and reply[2] ~= mark then return { 3 } end
  table.remove(entries, 1)
end
-- There was none ahead of the first one.
entries[most + 1] = nil
for i, entry in ipairs(entries) do
  local index = string.match(entry[1], '^0%-(%d+)$')
  if not index then return redis.error_reply('DAMAGED an entry has no index') end
  if tonumber(index) ~= first + i - 1 then
    if i == 1 then return { 1, index } end
    break
  end
  reply[2], reply[i + 2] = entry[2][4] or '', entry[2][2]
end
if #entries == 0 then
  local head = redis.call('HGET', KEYS[2], ARGV[1]) or '0'
  if tonumber(head) >= first then return { 1, '' } end
  if head + 1 < first then return { 2, head } end
end
return reply
