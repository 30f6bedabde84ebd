-- Whether an operator has paused a parked job: nobody runs it before it is resumed, or before its pause is over.
local function is_paused(p) return find(p.tail, '^|[^|]*|z') ~= nil end

-- When a parked job goes on by itself: the end of its pause, or a time that never comes.
local function wakes_at(p)
  local ends = match(p.tail, '^|[^|]*|z%d*%+(%d+)')
  return ends and #ends < 16 and ends or '9000000000000000'
end

-- When a pause is over, by the text that says who wants it and why: `by|end|reason`. Nil for one without an end.
local function end_of(pause)
  local ends = match(pause, '^[^|]*|(%d+)|')
  return ends and #ends < 16 and ends or nil
end
