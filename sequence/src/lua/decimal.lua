-- Whether one decimal number is less than another one. Lua's own numbers are exact to 2^53 only.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end
