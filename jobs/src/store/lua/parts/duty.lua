-- The earliest timer that the call sets: the node that keeps the timers is told of one that it does not expect yet.
local earliest
local function arm(due) if not earliest or due < earliest then earliest = due end end
local function tell_duty()
  if not earliest then return end
  if earliest < counted(meta[5]) then
    meta[5] = num(earliest)
    call('HSET', META, 'armed', meta[5])
    if meta[6] and meta[6] ~= '' then call('SPUBLISH', CHANNEL .. meta[6], 'a|' .. meta[5]) end
  end
end
