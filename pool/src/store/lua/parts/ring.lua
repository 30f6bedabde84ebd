-- The members, but for those in `but`: slots in use by Up workers, how many those are, the oldest standby and its entry; and
-- all entries.
local function ring(but)
  local all = call('HGETALL', W)
  local used, live, oldest, entry = {}, 0, nil, nil
  for i = 1, #all, 2 do
    local state, slot = match(all[i + 1], '^(%u)|([^|]*)|')
    if but and but[all[i]] then state = nil end
    if state == 'U' and tonumber(slot) then
      used[tonumber(slot)] = true
      live = live + 1
    elseif state == 'P' and tonumber(all[i]) and (not oldest or tonumber(all[i]) < tonumber(oldest)) then
      oldest, entry = all[i], all[i + 1]
    end
  end
  return used, live, oldest, entry, all
end

-- Adds the ring's size to a change of w when the slot is beyond it; with any member, it is 1 at least. It never shrinks:
-- a trailing slot that was left is a hole like any other, so that nobody else's keys move.
local function grow(changes, slot)
  local size = tonumber(call('HGET', W, 'size') or '0') or 0
  if slot and slot >= size then
    changes[#changes + 1] = 'size'
    changes[#changes + 1] = num(slot + 1)
  end
end
