-- How jobs come to their end, and what becomes of those that wait for it.

-- A parent in one of its lives, id#birth: its job while that life lasts, and its id.
local function parent_of(text)
  local id, birth = match(text, '^(.*)#(%x+)$')
  local j = id and sound(id)
  if not j or j.birth ~= birth then return nil, id end
  return j, id
end

-- Whether its parent counts the job. A child that counts no more still names its parent, which takes it along when it is
-- removed.
local function counts_for(j) return j.parent ~= '' and not has(j, 'e') end

-- A job is not found by its look-ups any more.
local function drop_lookups(j)
  for entry in string.gmatch(call('HGET', EXTRAS, 'l:' .. j.id) or '', '[^\n]+') do
    call('ZREM', INDEX, 'k:' .. entry .. '|' .. j.id)
  end
end

-- Deletes a job with all that belongs to it.
local function drop(j)
  dropped[j.id], jobs[j.id] = true, false
  if has(j, 'b') then no_extras[#no_extras + 1] = 'b:' .. j.id .. '#' .. j.birth end
  if has(j, 'j') then no_extras[#no_extras + 1] = 'r:' .. j.id end
  if has(j, 'n') then noted[j.id] = false end
  if has(j, 'w') then no_extras[#no_extras + 1] = 's:' .. j.id end
  if has(j, 'l') then
    drop_lookups(j)
    no_extras[#no_extras + 1] = 'l:' .. j.id
  end
  if has(j, 'c') then
    timers['w:' .. j.id .. '#' .. j.birth] = t
    arm(t)
  end
  if has(j, 'd') then timers['r:' .. j.id] = false end
end

-- Another life of a job that has ended: the children, the executions and the parent of the former one are none of its.
local function renew_life(j, birth)
  forget_failure(j)
  if has(j, 'e') then
    unflag(j, 'e')
    j.parent = ''
  end
  if has(j, 'c') then
    timers['w:' .. j.id .. '#' .. j.birth] = t
    arm(t)
    unflag(j, 'ch')
    j.open = 0
  end
  j.birth = birth or birth_at(999)
end

local finish

-- A child has come to its end. Its parent counts it once, and goes on when it was the last one.
local function count_child(j, state, text)
  local of = j.parent
  flag(j, 'e')
  if call('ZREM', INDEX, 'o:' .. of .. '|' .. j.id) == 0 then return end
  local parent = parent_of(of)
  if not parent then
    -- Its parent was removed a moment ago, and the tick that takes it along has to find it.
    local taken = 'x:' .. of
    if timers[taken] or call('ZSCORE', TIMERS, taken) then call('ZADD', INDEX, 0, 'c:' .. of .. '|' .. j.id) end
    return
  end
  call('ZADD', INDEX, 0, 'c:' .. of .. '|' .. j.id)
  call('HSET', EXTRAS, 'c:' .. of .. '|' .. j.id, state .. text)
  parent.open = max(0, parent.open - 1)
  changed[parent.id] = parent
  if parent.state ~= 'W' then
    -- The next wait of the parent is not for nothing.
    flag(parent, 'h')
    -- It has not come to wait for its children yet.
    if state ~= 'C' and has(parent, 'f') and not is_over(parent) and not has(parent, 'b') then
      call('HSET', EXTRAS, 'b:' .. of, j.id)
      flag(parent, 'b')
    end
    return
  end
  if state ~= 'C' and has(parent, 'f') then
    leave(parent)
    finish(parent, 'F', 'child ' .. j.id .. ' failed')
  elseif parent.open == 0 and not has(parent, 'o') then
    leave(parent)
    parent.attempts = 0
    enter(parent, 'Q')
    tell(parent)
  end
end

-- The end of a job that has left its place: C done, F failed, X cancelled. One that was asked for again meanwhile is
-- pending once more. Returns K done, F failed, C cancelled, Q pending.
finish = function(j, state, text)
  local q = queue_of(j.queue)
  changed[j.id] = j
  if j.again ~= '' then
    -- This end makes the same life when it is said again after a loss of data: then whoever runs that goes on.
    local birth = birth_of(tonumber(j.token), 999)
    renew_life(j, birth > j.birth and birth or nil)
    forget_notes(j)
    unflag(j, 'x')
    j.due, j.again, j.attempts = tonumber(j.again), '', 0
    j.place = place_at((j.due > 0 and j.due or t) - j.priority * q.step, 0)
    set_result(j, text)
    enter(j, 'Q')
    tell(j)
    return 'Q'
  end
  count(q.name, state == 'C' and 'done' or state == 'F' and 'failed' or 'cancelled', 1)
  if counts_for(j) then count_child(j, state, text) end
  local keep = state == 'C' and j.keep or q.keep_failed
  if keep >= 0 and (has(j, 'w') or has(j, 'v')) then keep = max(keep, 60000) end
  forget_failure(j)
  unflag(j, 'xpoh')
  if has(j, 'c') and j.open > 0 then
    timers['w:' .. j.id .. '#' .. j.birth] = t
    arm(t)
  end
  j.state, j.node = state, ''
  tell(j, nil, state .. text)
  if keep == 0 then
    drop(j)
  else
    set_result(j, text)
    if has(j, 'd') then
      unflag(j, 'd')
      timers['r:' .. j.id] = false
    end
    if keep > 0 then
      timers['r:' .. j.id] = t + keep
      arm(t + keep)
    end
    if state == 'F' then call('ZADD', INDEX, 0, 'f:' .. j.queue .. '|' .. j.place .. j.id) end
  end
  return state == 'C' and 'K' or state == 'F' and 'F' or 'C'
end

-- An execution has failed, or was lost: the job runs again after `delay` ms, or has used up its attempts.
local function retry(j, delay, text)
  local most = j.max > 0 and j.max or queue_of(j.queue).max
  leave(j)
  if has(j, 'x') then return finish(j, 'X', 'cancelled') end
  if j.again ~= '' or most > 0 and j.attempts >= most then return finish(j, 'F', text) end
  set_result(j, text)
  if delay > 0 then j.due = t + delay end
  enter(j, 'Q')
  tell(j)
  return j.state == 'D' and 'D' or 'Q'
end

-- The open children of a parent that has ended are cancelled, and count no more. Returns how many there were.
local function abandon(of, most)
  local members = call('ZRANGE', INDEX, '[o:' .. of .. '|', '(o:' .. of .. '}', 'BYLEX', 'LIMIT', 0, most)
  for i = 1, #members do
    local id = sub(members[i], #of + 4)
    local j = sound(id)
    call('ZREM', INDEX, members[i])
    call('ZADD', INDEX, 0, 'c:' .. of .. '|' .. id)
    if j and j.parent == of then
      flag(j, 'e')
      if j.state == 'R' then
        flag(j, 'x')
        call('SPUBLISH', CHANNEL .. j.node, 'c|' .. id .. '|' .. j.token)
      elseif not is_over(j) then
        j.again = ''
        leave(j)
        finish(j, 'X', 'its parent has ended')
      end
    end
  end
  return #members
end

-- Removes a job, also one that runs. Its children go with it, in the ticks that follow. After a loss of data, nodes may still
-- attest some that the data do not know.
local function remove(j)
  if j.state == 'R' then call('SPUBLISH', CHANNEL .. j.node, 'h|' .. j.id .. '|' .. j.token) end
  local may_come = bury(j.id, queue_of(j.queue).lease)
  leave(j)
  if counts_for(j) then count_child(j, 'X', 'removed') end
  j.state = '-'
  tell(j)
  drop(j)
  if has(j, 'c') or may_come then
    local of = j.id .. '#' .. j.birth
    timers['w:' .. of], timers['x:' .. of] = false, t
  end
end

-- Forgets what children came to. Returns how many there were.
local function forget(of, most)
  local members = call('ZRANGE', INDEX, '[c:' .. of .. '|', '(c:' .. of .. '}', 'BYLEX', 'LIMIT', 0, most)
  if #members > 0 then
    call('ZREM', INDEX, unpack(members))
    call('HDEL', EXTRAS, unpack(members))
  end
  return #members
end
