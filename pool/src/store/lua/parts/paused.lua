-- Whether an operator has paused a parked job: nobody runs it before it is resumed.
local function is_paused(p) return find(p.tail, '^|[^|]*|z') ~= nil end
