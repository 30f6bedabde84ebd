-- The first part of every script that changes a map in its own keys.
-- KEYS: meta hash deadlines
-- ARGV: name, channel, life of a map that begins with this change ('' | ms after the last change | '@' ms
-- from now), life of the written entries in ms ('' for permanent ones), then the script's own
local META, HASH, DUE = KEYS[1], KEYS[2], KEYS[3]
local head, time = redis.call('HMGET', META, 'inc', 'rev', 'rev:at', 'rev:ttl'), redis.call('TIME')
local inc, known = head[1], { head[2], head[3], head[4], time = time }
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Makes one revision. Returns its place.
local function put(changes)
  if not inc then
    inc = string.format('%.0f', time[1] * 1000000 + time[2])
    redis.call('UNLINK', META, HASH, DUE)
    redis.call('HSET', META, 'inc', inc)
    local life, from_now = ARGV[3], string.match(ARGV[3], '^@(%d+)$')
    if from_now then life = string.format('@%.0f', now + from_now) end
    if life ~= '' then redis.call('HSET', META, 'rev:ttl', life) end
    known = { false, false, life ~= '' and life, time = time, checked = true, undated = true }
  end
  local rev, stamp = mapput(ARGV[1], HASH, META, 'rev', ARGV[2], inc, changes, DUE, known)
  return inc, rev, stamp
end

-- The value to write: with a deadline, when the caller's entries have one.
local function entry(value)
  if ARGV[4] == '' then return value end
  return { value, string.format('%.0f', now + ARGV[4]) }
end

-- Deletes some of the due entries first, in a revision of their own.
local due, first = {}, inc and redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES') or {}
known.undated = not first[1]
if first[1] and tonumber(first[2]) <= now then
  due = redis.call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, 16)
  local changes = {}
  for i, field in ipairs(due) do changes[2 * i - 1], changes[2 * i] = field, false end
  put(changes)
end

-- The values of up to 1,000 fields, each false when it is absent or due.
local function all_present(fields)
  if not inc then
    local none = {}
    for i = 1, #fields do none[i] = false end
    return none
  end
  local values = redis.call('HMGET', HASH, unpack(fields))
  known.checked = true
  for i = 1, #due < 16 and 0 or #fields do
    local deadline = values[i] and redis.call('ZSCORE', DUE, fields[i])
    if deadline and tonumber(deadline) <= now then values[i] = false end
  end
  return values
end

-- The value of a field, false when it is absent or due.
local function present(field) return all_present({ field })[1] end
