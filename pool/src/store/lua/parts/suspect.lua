-- Who took the worker down? A job that had proven itself is beyond suspicion. One that had only just begun waits from its
-- second loss on, any other from its fifth: each for another time, so that next time its neighbours have proven
-- themselves, or have not begun, when the culprit does it again.
local PROVEN_MS = 45000

-- From a tenth of `widest` to all of it, ms: by the key, and another one after each loss.
local function spread(key, losses, widest)
  local n = math.min(losses, 50)
  local factor, h = 30011 + 602 * n, n
  for i = 1, #key do h = (h * factor + byte(key, i)) % 2147483647 end
  for _ = 1, 4 do h = (h % 65536 * factor + math.floor(h / 65536) * 40503 + 1) % 2147483647 end
  return math.floor(widest * (100 + h % 901) / 1000)
end

-- How long a running job waits before it is begun again, ms. `heard`: when its worker was heard of last.
local function suspect(key, p, heard, stable_ms, ttl)
  local proven, ran, losses = math.min(stable_ms, PROVEN_MS), heard - p.since, tonumber(p.attempts)
  if ran >= proven then
    p.attempts = '1'
    return 0
  end
  if losses < (ran < ttl and 2 or 5) then return 0 end
  return spread(key, losses, math.min(4 * proven, 2 * ttl * 4 ^ math.min(losses - 2, 10)))
end
