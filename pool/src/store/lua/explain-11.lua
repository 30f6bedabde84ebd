#!lua flags=no-writes
-- All that is known of a key's job, at one moment.
-- KEYS: pool settings jobs queue errors notifications checkpoints heartbeats expired ended outcomes
-- ARGV: key, dispatch or ''
-- Returns: OK, the clock, R or N, the shutdown flag or '', {as lookup}, when the sweeper acts or '', its error
--          or '', how many notifications wait, the header of its checkpoint or nil, the length of
--          that checkpoint, the counter of its owner or '', 1 if its owner is expired, and, unless it is parked, the
--          highest counter of a worker or '': the clock if one has not renewed yet
--@base
--@clock
--@records
--@outcome
--@notes
local key, id = argv[1], argv[2]
local phase = call('HMGET', POOL, 'incarnation', 'phase')
if not phase[1] then return { call('HEXISTS', POOL, 'closed') == 1 and 'CLOSED' or 'NOPOOL' } end

-- A key of another type tells nothing.
local function text(command, name, field)
  local found = redis.pcall(command, name, field)
  return type(found) == 'string' and found or nil
end
local function time(name)
  local score = tonumber(text('ZSCORE', name, key))
  return score and num(math.floor(math.min(math.max(score, 0), 2 ^ 52))) or ''
end

-- What is remembered of the dispatch; where that is of another type, it cannot be read.
local function remembered()
  local ok, ended, outcome, unread = pcall(remembered_of, key, id)
  if not ok then return 0, false, '0' end
  return ended, outcome, unread
end

-- A counter that is a number. The first one of a worker, 1, is no time.
local function counted(text) return text and #text < 17 and match(text, '^%d+$') or nil end

local function freshest(t)
  local counters, highest = redis.pcall('HGETALL', HEARTBEATS), nil
  for i = 2, #counters, 2 do
    local count = tonumber(counted(counters[i]))
    if count == 1 then count = t end
    if count then highest = math.max(highest or 0, count) end
  end
  return highest and num(highest) or ''
end

local r, t = text('HGET', JOBS, key), now()
local p = r and parse(r)
local owner = p and p.owner ~= '' and p.owner
local header = text('HGET', NOTIFICATIONS, 'h:' .. key)
local _, first, ending = span_of(header or '')
local heard = owner and text('HGET', HEARTBEATS, owner)
local kept = redis.pcall('HSTRLEN', CHECKPOINTS, 'b:' .. key)
return { 'OK', num(t), phase[2] == 'R' and 'R' or 'N', text('HGET', SETTINGS, 'shutdown') or '',
  { r or false, remembered() }, time(QUEUE), text('HGET', ERRORS, key) or '',
  first and ending - first or 0, text('HGET', CHECKPOINTS, 'h:' .. key) or false, type(kept) == 'number' and kept or 0,
  counted(heard) or '', owner and text('HGET', EXPIRED, owner) and 1 or 0,
  p and p.state ~= 'P' and freshest(t) or '' }
