-- The shutdown flag (false when unset), then the numbers asked for. One that is missing raises, before any write.
local function settings(...)
  local v = call('HMGET', CF, 'sd', ...)
  for i = 2, #v do v[i] = tonumber(v[i]) or error('setting ' .. select(i - 1, ...) .. ' is missing', 0) end
  return unpack(v)
end

local function is_stopping(flag) return flag and byte(flag) == 83 end
