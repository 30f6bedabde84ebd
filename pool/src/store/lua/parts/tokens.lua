-- Tokens, ids of workers and schedules, and terms come from one counter. Lua counts exactly up to 2^53: no number above
-- LAST_TOKEN is ever minted, and none that a caller has seen is believed. A call mints at most 128.
local LAST_TOKEN = 2 ^ 53 - 2 ^ 20

-- The counter, from its text; nil when it is damaged, missing, or beyond what is minted.
local function counted(text)
  local n = tonumber(text)
  return n and n >= 0 and n <= LAST_TOKEN and num(n) == text and n or nil
end

-- Whether this call may mint from it.
local function has_tokens(text)
  local n = counted(text)
  return n and n <= LAST_TOKEN - 128
end

local function seen_token(text)
  local n = tonumber(text)
  return n and n >= 0 and n <= LAST_TOKEN and n or 0
end

-- Raises the counter to what was seen, and returns it; one that is damaged stays as it is, and is 0.
local function raise(text, seen)
  local n = counted(text)
  if n and seen > n then call('HSET', M, 'tok', num(seen)) end
  return n and math.max(n, seen) or 0
end

-- Where tokens begin by this time of the clock, 4,096 a millisecond since 2025. A clock that is wrong uses up half of
-- them at most.
local function floor_at(t) return math.max(0, math.min((t - 1735689600000) * 4096, 2 ^ 52)) end
