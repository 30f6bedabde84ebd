-- Records of jobs:
-- 1|state|token|attempts|node|again|flags|parent|open|keep|queue|group|place|priority|max|due|birth|news|flow, a
-- correlation id if there is one, and a tail that is kept. The jobs of this call by id: false where there is none, 'X' for a record that cannot be read.
local jobs, changed, dropped = {}, {}, {}
-- Records that this call adds without a table of their own.
local fresh = {}

local function parse(id, record)
  local state, of, attempts, node, again, flags, parent, open, keep, queue, group, place, priority, most, due, birth, news,
    flow, correlation, tail = match(record, '^1|([QDRWPCFX])|(%d+)|(%d+)|([^|]*)|(%d*)|(%a*)|([^|]*)|(%d+)|(%-?%d+)|([^|]+)|([^|]*)|(%x+)|'
    .. '(%-?%d)|(%d+)|(%d+)|(%x+)|(%d+)|([^|]*)|?([^|]*)(.*)$')
  -- No token has 17 digits, and no moment 14.
  if not state or #of > 16 or #due > 13 then return 'X' end
  return { id = id, state = state, token = of, attempts = tonumber(attempts), node = node, again = again, flags = flags,
    parent = parent, open = tonumber(open), keep = tonumber(keep), queue = queue, group = group, place = place,
    priority = tonumber(priority), max = tonumber(most), due = tonumber(due), birth = birth, news = tonumber(news),
    flow = flow, correlation = correlation, tail = tail }
end

local function pack(j)
  return table.concat({ '1', j.state, j.token, num(j.attempts), j.node, j.again, j.flags, j.parent, num(j.open),
    num(j.keep), j.queue, j.group, j.place, num(j.priority), num(j.max), num(j.due), j.birth, num(j.news), j.flow }, '|')
    .. ((j.correlation ~= '' or j.tail ~= '') and '|' .. j.correlation or '') .. j.tail
end

-- Reads jobs that the call will need, at once.
local function read(ids)
  if #ids == 0 then return end
  local records = call('HMGET', JOBS, unpack(ids))
  for i = 1, #ids do
    if jobs[ids[i]] == nil then jobs[ids[i]] = records[i] and parse(ids[i], records[i]) or false end
  end
end

local function job(id)
  if jobs[id] == nil then
    local record = fresh[id] or call('HGET', JOBS, id)
    jobs[id] = record and parse(id, record) or false
  end
  return jobs[id]
end

-- A job that can be read, or nil.
local function sound(id)
  local j = job(id)
  return j and j ~= 'X' and j or nil
end

local function has(j, flag) return find(j.flags, flag, 1, true) ~= nil end
local function flag(j, letter)
  if not has(j, letter) then j.flags = j.flags .. letter end
  changed[j.id] = j
end
local function unflag(j, letters)
  j.flags = gsub(j.flags, '[' .. letters .. ']', '')
  changed[j.id] = j
end
local function is_over(j) return j.state == 'C' or j.state == 'F' or j.state == 'X' end

-- 17 characters by which ready jobs are ordered: a time, the call, and the place in the call.
local function place_at(ms, item) return fmt('%011x%03x%03d', max(min(ms, 2 ^ 43), 0), mint() % 4096, item) end

-- The birth of a life: as many characters, which rise with the numbers of calls, also when the clock steps back.
local function birth_of(n, item) return fmt('%011x%03x%03d', floor(n / 4096) + 1735689600000, n % 4096, item) end
local function birth_at(item) return birth_of(mint(), item) end
