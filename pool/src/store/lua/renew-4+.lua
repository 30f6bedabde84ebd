#!lua flags=allow-oom
-- Heartbeat of all workers of a node: a counter that is never behind the clock, ms, so that it also says when it was
-- raised last. Raises the token counter to what the caller has seen; keeps the node's stream.
-- KEYS: m w hb cf, then the node's ns if it waits for outcomes
-- ARGV: inc, highest token seen by the caller, wid*
-- Returns: OK mv cv flag phase run_id nq opened (1: the node's stream was made), then per worker U | P | G | F (no member)
--@base
--@guard
--@clock
--@settings
--@tokens
local head, refusal = guard(true, 'tok')
if not head then return refusal end
local flag, ttl = settings('ttl')
raise(head[6], seen_token(argv[2]))
-- Who answers, and, if it was promoted, since when.
local facts = call('INFO', 'server') .. call('INFO', 'replication')
local server, before = match(facts, 'run_id:(%w+)') or '', match(facts, 'master_replid2:(%w+)')
if before and find(before, '[^0]') then
  server = server .. '+' .. before .. '.' .. (match(facts, 'second_repl_offset:([%d-]+)') or '')
end
local t, out = now(), { 'OK', head[3], head[4], flag or '', head[2], server, num(math.max(tonumber(head[5]) or 0, 0)), '0' }
-- A counter that is no number goes on from the clock.
local function beat(wid)
  local count = tonumber(call('HGET', HB, wid)) or 0
  call('HSET', HB, wid, num(math.max(count + 1, t)))
end
for i = 3, #argv do
  local entry = call('HGET', W, argv[i])
  if entry then beat(argv[i]) end
  out[#out + 1] = entry and sub(entry, 1, 1) or 'F'
end
if KEYS[5] then
  local ms = math.max(60000, 2 * ttl)
  if call('PEXPIRE', KEYS[5], ms) == 0 then
    out[8] = '1'
    call('XADD', KEYS[5], '*', 'open', '1')
    call('PEXPIRE', KEYS[5], ms)
  end
end
return out
