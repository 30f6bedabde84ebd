local call, argv = redis.call, ARGV
local byte, sub, find, match, gsub, fmt = string.byte, string.sub, string.find, string.match, string.gsub, string.format
local floor, max, min = math.floor, math.max, math.min

-- An integer up to 2^53 as text. `%d` takes half the time, where a C long has 64 bits.
local whole = fmt('%d', 2 ^ 52) == '4503599627370496' and '%d' or '%.0f'
local function num(n) return fmt(whole, n) end

-- A number that the data hold, from its text. Unreadable, negative and impossibly high numbers are 0.
local function counted(text)
  local n = tonumber(text)
  return n and n >= 0 and n <= 2 ^ 53 and floor(n) or 0
end

local function is_name(s) return #s > 0 and #s <= 64 and not find(s, '[^%w_:.-]') end
local function is_id(s) return #s > 0 and #s <= 256 and not find(s, '[^%w_:.~%%@/-]') end

-- Where tokens begin by this time of the clock: 4,096 a millisecond since 2025.
local function floor_at(t) return max(0, min((t - 1735689600000) * 4096, 2 ^ 52)) end
