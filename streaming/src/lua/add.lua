#!lua
-- Adds entries, all or none, and bounds the stream's length and life.
-- KEYS: stream
-- ARGV: '1' to add to an existing stream only, or '0'; '~' or '='; max length or ''; time to live ms or '';
-- 'NX' when it counts from the first entry, or ''; then for each entry the number of its words, and its words
-- Returns: the ids in order | nil when the stream had to exist and does not
local key, op, max, ttl = KEYS[1], ARGV[2], ARGV[3], ARGV[4]
if ARGV[1] == '1' and redis.call('EXISTS', key) == 0 then return false end
local function expire()
  if ARGV[5] == 'NX' then return redis.call('PEXPIRE', key, ttl, 'NX') end
  return redis.call('PEXPIRE', key, ttl)
end
local expires = ttl == ''
if not expires then
  -- Commands that can fail come first: after an error nothing was added, and no foreign key got an expiry.
  redis.call('XLEN', key)
  expires = expire() == 1
end
local ids, at = {}, 6
while ARGV[at] do
  local last = at + tonumber(ARGV[at])
  if max == '' then
    ids[#ids + 1] = redis.call('XADD', key, '*', unpack(ARGV, at + 1, last))
  else
    ids[#ids + 1] = redis.call('XADD', key, 'MAXLEN', op, max, '*', unpack(ARGV, at + 1, last))
  end
  at = last + 1
end
if not expires then expire() end
return ids
