-- The head of a set: the incarnation and the counter of tokens.

-- Lua counts exactly up to 2^53. No number above LAST_TOKEN is minted, and none that a caller has seen is believed.
local LAST_TOKEN = 2 ^ 53 - 2 ^ 20

local function seen_token(text)
  local n = tonumber(text)
  return n and n >= 0 and n <= LAST_TOKEN and n or 0
end

-- The incarnation as text. A head without a counter has lost its tokens, and an unreadable head belongs to no set: both
-- are '0', and the nodes begin a new incarnation.
local function incarnation_of(text, token)
  local n, last = tonumber(text), tonumber(token)
  return n and n >= 1 and n <= LAST_TOKEN and num(n) == text and last and last >= 0 and text or '0'
end
