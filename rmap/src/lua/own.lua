-- What every change of a map with keys of its own begins with.
-- KEYS: meta hash deadlines
-- ARGV: name, channel, life of a map that begins with this change ('' | ms after the last change | '@' ms from now),
-- life of the entries that are written in ms ('' for good), then the script's own
local META, HASH, DUE = KEYS[1], KEYS[2], KEYS[3]
local head, time = redis.call('HMGET', META, 'inc', 'rev', 'rev:at', 'rev:ttl'), redis.call('TIME')
local inc, known = head[1], { head[2], head[3], head[4], time = time }
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- One revision. Returns where the map is then.
local function put(changes)
  if not inc then
    inc = string.format('%.0f', time[1] * 1000000 + time[2])
    redis.call('UNLINK', META, HASH, DUE)
    redis.call('HSET', META, 'inc', inc)
    local life, from_now = ARGV[3], string.match(ARGV[3], '^@(%d+)$')
    if from_now then life = string.format('@%.0f', now + from_now) end
    if life ~= '' then redis.call('HSET', META, 'rev:ttl', life) end
    known = { false, false, life ~= '' and life, time = time }
  end
  local rev, stamp = mapput(ARGV[1], HASH, META, 'rev', ARGV[2], inc, changes, DUE, known)
  return inc, rev, stamp
end

-- A value as it is written: with a deadline, when entries written by the caller have one.
local function entry(value)
  if ARGV[4] == '' then return value end
  return { value, string.format('%.0f', now + ARGV[4]) }
end

-- Some of the entries that are due go first, in a revision of their own.
local due = inc and redis.call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, 16) or {}
if #due > 0 then
  local changes = {}
  for i, field in ipairs(due) do changes[2 * i - 1], changes[2 * i] = field, false end
  put(changes)
end

-- The value of a field, false when it is absent or due.
local function present(field)
  if not inc then return false end
  local value = redis.call('HGET', HASH, field)
  if not value or #due < 16 then return value end
  local deadline = redis.call('ZSCORE', DUE, field)
  return (not deadline or tonumber(deadline) > now) and value
end
