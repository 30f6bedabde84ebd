-- Schedules: 1|id|revision|period|next|ticks|incarnation|term|seq|node|life and a tail that is kept.

-- A schedule; nil when there is none, false when its entry does not parse.
local function schedule(name)
  local s = call('HGET', SC, name)
  if not s then return nil end
  local id, rev, period, next_, ticks, inc, term, seq, node, life, tail = match(s,
    '^1|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|([%w_:-]*)|(%d*)(.*)$')
  if not id or tail ~= '' and byte(tail) ~= 124 then return false end
  return { id = id, rev = rev, period = tonumber(period), next = tonumber(next_), ticks = tonumber(ticks), inc = inc,
    term = term, seq = seq, node = node, life = life, tail = tail }
end

local function pack_schedule(s)
  return table.concat({ '1', s.id, s.rev, num(s.period), num(s.next), num(s.ticks), s.inc, s.term, s.seq, s.node,
    s.life }, '|') .. s.tail
end

-- Whether the caller's turn to plan lasts: nobody else has taken it, in this life of the schedule and the data.
local function is_turn(name, id, term)
  local s = schedule(name)
  return s and s.id == id and s.term == term and s.node ~= '' and s.inc == argv[1]
end
