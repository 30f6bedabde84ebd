#!lua
-- Hands asks, and pokes after them, to the owners of jobs, each under the token that it names. Nothing else is kept of
-- them: who asks keeps the ask.
-- KEYS: pool workers settings jobs, then the stream of each worker named
-- ARGV: inc, asker, count of workers, count of tokens, a byte per ask: which worker is guessed, 0 none; a byte per ask:
--       which token it names, 0 none; wid*, token*, then key*, head* (not_after|id|f or p|name), body*
-- Returns: OK, a letter per ask: K sent | M another owner or token | W nobody runs it, somebody will |
--          G its owner is no member | S stopping | P parked | Y paused | N no such job | B the stream takes no asks |
--          R recovering and no record | L late | X bad record or ask; then owner and token per M
--@base
--@guard
--@clock
--@settings
--@records
--@paused
local head, refusal = guard(true)
if not head then return refusal end
local _, late_ms = settings('max_dispatch_deadline')
local asker, workers, guess_of, token_of = argv[2], tonumber(argv[3]), argv[5], argv[6]
local of_tokens = 6 + workers
local base = of_tokens + argv[4]
local n = (#argv - base) / 3
local of_heads, of_bodies = base + n, base + 2 * n
local stored, t = call('HMGET', JOBS, unpack(argv, base + 1, of_heads)), now()
local pattern = '^1|([QARSP])|(%d*)|(%d+)' .. REST
local out, letters, events = { 'OK', '' }, {}, {}

-- What the jobs of a worker share. A stream that is damaged takes no asks.
local function event_for(x)
  local event = { 'a', asker, n = 2, bytes = 0, owner = argv[6 + x] }
  event.member = redis.pcall('HEXISTS', WORKERS, event.owner) == 1
  local length = event.member and redis.pcall('XLEN', KEYS[4 + x])
  event.waiting = type(length) == 'number' and length or math.huge
  events[x] = event
  return event
end

local function answer(i)
  local r, h, body = stored[i], argv[of_heads + i], argv[of_bodies + i]
  local ends = tonumber(match(h, '^(%d+)|')) -- the rest is between asker and owner
  if not ends or #body > 65536 then return 'X' end
  if not r then return head[2] == 'R' and 'R' or 'N' end
  local state, owner, token = match(r, pattern)
  if not state then return 'X' end
  if state == 'Q' or state == 'A' then return 'W' end
  if state == 'P' then
    local p = parse(r)
    return p and is_paused(p) and 'Y' or 'P'
  end
  if state ~= 'R' then return state end
  local x, y = byte(guess_of, i), byte(token_of, i)
  if x == 0 or y == 0 or argv[6 + x] ~= owner or argv[of_tokens + y] ~= token then
    local j = #out
    out[j + 1], out[j + 2] = owner, token
    return 'M'
  end
  if ends < t or ends > t + late_ms then return 'L' end
  local event = events[x] or event_for(x)
  if not event.member then return 'G' end
  local j, bytes = event.n, event.bytes + #body
  if event.waiting > 4096 or event.waiting * bytes > 16777216 then return 'B' end
  event[j + 1], event[j + 2], event[j + 3], event[j + 4] = argv[base + i], h, token, body
  event.n, event.bytes = j + 4, bytes
  return 'K'
end

for i = 1, n do letters[i] = answer(i) end
for x, event in pairs(events) do
  if event.n > 2 then call('XADD', KEYS[4 + x], '*', unpack(event, 1, event.n)) end
end
out[2] = table.concat(letters)
return out
