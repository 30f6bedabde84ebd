-- How many of those that are up have been heard of within their time to live, and which standbys. One that has not renewed
-- yet counts, who is in `but` does not. A clock that steps costs time only.
local function living(all, t, but)
  local beats, counters = {}, call('HGETALL', HEARTBEATS)
  for i = 1, #counters, 2 do beats[counters[i]] = tonumber(counters[i + 1]) end
  local up, waiting = 0, {}
  for i = 1, #all, 2 do
    local state, ttl = match(all[i + 1], '^([UP])|[^|]*|(%d+)|')
    local beat = state and not (but and but[all[i]]) and match(all[i], '^%d+$') and beats[all[i]]
    if beat and (beat == 1 or beat + ttl > t) then
      if state == 'U' then up = up + 1 else waiting[all[i]] = all[i + 1] end
    end
  end
  return up, waiting
end

-- The ids of these, the oldest one first.
local function by_age(standbys)
  local ids = {}
  for wid in pairs(standbys) do ids[#ids + 1] = wid end
  table.sort(ids, function(a, b) return tonumber(a) < tonumber(b) end)
  return ids
end

-- Adds to a change of the workers that a standby takes a slot.
local function seat(changes, wid, standby, slot)
  changes[#changes + 1] = wid
  changes[#changes + 1] = 'U|' .. num(slot) .. sub(standby, 4)
end

-- Adds to a change of the workers that these standbys take the lowest free slots, the oldest one first.
local function seat_all(changes, used, waiting)
  local slot = -1
  for _, wid in ipairs(by_age(waiting)) do
    repeat slot = slot + 1 until not used[slot]
    seat(changes, wid, waiting[wid], slot)
  end
  if slot >= 0 then grow(changes, slot) end
end

-- Adds to a change of the workers that the oldest standbys, but for those in `but`, take these slots, the lowest one
-- first.
local function hand_off(changes, used, slots, all, but)
  local waiting = {}
  for i = 1, #all, 2 do
    if match(all[i], '^%d+$') and not but[all[i]] and match(all[i + 1], '^P|[^|]*|') then waiting[all[i]] = all[i + 1] end
  end
  local standbys, taken = by_age(waiting), 0
  table.sort(slots)
  for _, slot in ipairs(slots) do
    if taken == #standbys then return end
    if not used[slot] then
      taken, used[slot] = taken + 1, true
      seat(changes, standbys[taken], waiting[standbys[taken]], slot)
    end
  end
end

-- Whether a member has the pool's only live slot, or stands by while nobody is up; as the answer says it: again when the
-- first one was lost.
local function is_first(entry, live, up)
  local state = byte(entry)
  return (state == 85 and live == 1 or state == 80 and up == 0) and '1' or '0'
end
