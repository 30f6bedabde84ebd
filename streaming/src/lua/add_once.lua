#!lua
-- Adds an entry unless its publisher's id was used within the window. Forgets up to 16 ids whose window is
-- over.
-- KEYS: stream, ids (hash: id -> digest of the content and entry id), due (zset: id -> end of its window, ms)
-- ARGV: '1' to add to an existing stream only, or '0'; '~' or '='; max length or ''; time to live ms or '';
--       'NX' when it counts from the first entry, or ''; id; window ms; then the entry's words
-- Returns: {entry id, 1 when it was added before | 0} | nil when the stream had to exist and does not
-- Errors: CONFLICT and the entry id when the id was used for other content; nothing is added then
local key, ids, due, id, window = KEYS[1], KEYS[2], KEYS[3], ARGV[6], tonumber(ARGV[7])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local words = {}
for i = 8, #ARGV do words[#words + 1] = #ARGV[i] .. ':' .. ARGV[i] end
local digest = redis.sha1hex(table.concat(words))

local ends = redis.call('ZSCORE', due, id)
if ends and tonumber(ends) > now then
  local known = redis.call('HGET', ids, id)
  -- A shorter value is an id without an entry, because the entry could not be added.
  if known and #known > 40 then
    local entry = string.sub(known, 41)
    if string.sub(known, 1, 40) ~= digest then return redis.error_reply('CONFLICT ' .. entry) end
    return {entry, 1}
  end
end
-- Commands that can fail come first, because of a key of another type or a missing right. After an error
-- nothing was added, and the same call may be repeated.
redis.call('XLEN', key)
if ARGV[1] == '1' and redis.call('EXISTS', key) == 0 then return false end

local over = redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, 16)
if #over > 0 then
  redis.call('HDEL', ids, unpack(over))
  redis.call('ZREM', due, unpack(over))
end
redis.call('HSET', ids, id, digest)
redis.call('ZADD', due, now + window, id)
-- When nothing is added any more, both keys expire with the last id's window.
if redis.call('PTTL', due) < window then
  redis.call('PEXPIRE', ids, window)
  redis.call('PEXPIRE', due, window)
end
local function expire()
  if ARGV[4] == '' then return 1 end
  if ARGV[5] == 'NX' then return redis.call('PEXPIRE', key, ARGV[4], 'NX') end
  return redis.call('PEXPIRE', key, ARGV[4])
end
local expires = expire() == 1

local entry
if ARGV[3] == '' then
  entry = redis.call('XADD', key, '*', unpack(ARGV, 8))
else
  entry = redis.call('XADD', key, 'MAXLEN', ARGV[2], ARGV[3], '*', unpack(ARGV, 8))
end
redis.call('HSET', ids, id, digest .. entry)
if not expires then expire() end
return {entry, 0}
