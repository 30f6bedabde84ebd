#!lua flags=allow-oom
-- The turn to plan: the holder says that it lives, or leaves. Another node takes the turn when nobody holds it, when it
-- was held in an earlier incarnation, or when the pair that it has seen stands still. It alone knows for how long. A
-- new turn of a plan begins with a tick. With memory full it still rewrites entries, as large as they were.
-- KEYS: pool schedules
-- ARGV: inc, node, then (schedule, id, life, mode take|leave, term seen or '', seq seen)*
-- Returns: OK, now, then per schedule H<entry> the caller's | O<entry> another's, or nobody's | N ended |
--          X the entry does not parse | T no tokens are left to take the turn with
--@base
--@guard
--@clock
--@term
--@tokens
local head, refusal = guard(false, 'token')
if not head then return refusal end
local inc, node, t = argv[1], argv[2], now()
local out, seen, changed = { 'OK', num(t) }, {}, {}

local function answer(at)
  local name, life, mode = argv[at], argv[at + 2], argv[at + 3]
  local s = seen[name]
  if s == nil then s = schedule(name) end
  if s == false then return 'X' end
  if not s or s.id ~= argv[at + 1] then return 'N' end
  seen[name] = s
  local held = s.node ~= '' and s.inc == inc
  local own = held and s.node == node and s.life == life
  if mode == 'leave' then
    if not own then return 'O' .. pack_schedule(s) end
    s.node, s.life = '', ''
  elseif own then
    s.seq = num(s.seq + 1)
  elseif not held or s.term == argv[at + 4] and s.seq == argv[at + 5] then
    if not has_tokens(head[6]) then return 'T' end
    s.term, s.seq, s.inc, s.node, s.life = num(call('HINCRBY', POOL, 'token', 1)), '1', inc, node, life
    -- The former planner may not have come to the end of it.
    if sub(name, 1, 2) == 's:' then s.next = t end
  else
    return 'O' .. pack_schedule(s)
  end
  -- A time that a server's clock wrote before it stepped back.
  s.next = math.min(s.next, t + s.period)
  local text = pack_schedule(s)
  changed[#changed + 1] = name
  changed[#changed + 1] = text
  return (mode == 'leave' and 'O' or 'H') .. text
end

for at = 3, #argv, 6 do
  out[#out + 1] = answer(at)
end
if #changed > 0 then call('HSET', SCHEDULES, unpack(changed)) end
return out
