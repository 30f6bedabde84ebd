-- Changes a replicated map: one revision, one message.
-- changes: { field, value, ... }, each field once. changes.clear deletes all existing entries first. A value is
--   a string;
--   { string, deadline }, an entry that ends at that time of the server's clock, in ms as text;
--   false, which deletes.
-- deadlines: the key of the sorted set with the entries' deadlines, or nil for a map whose entries are all permanent.
-- known: nil, or the values that the script has already read: { revision, stamp, life, time = ... }. The function
-- keeps it up to date. checked = true says that no key is of another type; undated = true, that no entry has a deadline.
-- Returns: revision, stamp; both text
local function mapput(name, hash, meta, rev_field, channel, inc, changes, deadlines, known)
  local call, at_field = redis.call, rev_field .. ':at'
  local head = known or call('HMGET', meta, rev_field, at_field, rev_field .. ':ttl')
  local time = head.time or call('TIME')
  local rev = string.format('%.0f', (tonumber(head[1]) or 0) + 1)
  local stamp = string.format('%.0f', time[1] * 1000000 + time[2])

  local message, size = { name, inc, rev, head[2] or '0', stamp }, 5
  if changes.clear then size, message[6] = 6, true end
  local set, gone, dated, lasting = {}, {}, {}, {}
  for i = 1, #changes, 2 do
    local field, value = changes[i], changes[i + 1]
    message[size + 1], message[size + 2], size = field, value, size + 2
    if not value then
      gone[#gone + 1], lasting[#lasting + 1] = field, field
    elseif type(value) == 'table' then
      set[#set + 1], dated[#dated + 1] = field, value[2]
      set[#set + 1], dated[#dated + 1] = value[1], field
    else
      set[#set + 1], lasting[#lasting + 1] = field, field
      set[#set + 1] = value
    end
  end

  local function each(command, key, words)
    for i = 1, #words, 1000 do call(command, key, unpack(words, i, math.min(i + 999, #words))) end
  end
  if dated[1] and not deadlines then error('an entry with a deadline in a map without a key for deadlines') end
  if not changes.clear and not head.checked then
    -- A key of another type raises here.
    call('HGET', hash, '')
    if deadlines then call('ZSCORE', deadlines, '') end
  end
  -- The place goes first: if a later command raises, every copy finds that its place differs.
  call('HSET', meta, rev_field, rev, at_field, stamp)
  if changes.clear then call('UNLINK', hash, deadlines or hash) end
  each('HSET', hash, set)
  each('HDEL', hash, gone)
  if deadlines then
    each('ZADD', deadlines, dated)
    if not head.undated then each('ZREM', deadlines, lasting) end
    if dated[1] then head.undated = false end
  end
  if head[3] then
    local life = tonumber(head[3])
    local ends = life and string.format('%.0f', math.floor(tonumber(stamp) / 1000) + life) or head[3]:match('^@(%d+)$')
    for _, key in ipairs(ends and { meta, hash, deadlines } or {}) do call('PEXPIREAT', key, ends) end
  end
  call('SPUBLISH', channel, cmsgpack.pack(message))
  head[1], head[2] = rev, stamp
  return rev, stamp
end
