#!lua flags=allow-oom
-- The server is new, the data went back, or the head is damaged: a new incarnation begins. For a while no job is taken,
-- and no lease is taken away: running nodes can attest. The first caller wins.
-- KEYS: meta
-- ARGV: inc or 0 when the head is damaged, highest token seen, the server's identity, hold_ms, grace_ms
-- Returns: OK, inc | NOSET | STALEINC, inc for the others
--@words
--@clock
--@head
local head, t = call('HMGET', META, 'incarnation', 'token'), now()
if not head[1] then return { 'NOSET' } end
local own = incarnation_of(head[1], head[2])
if own ~= argv[1] then return { 'STALEINC', own } end
-- The readable part of a damaged head counts. A used-up counter stays, or tokens would come twice.
local inc, last = counted(head[1]), tonumber(head[2])
inc = max(inc <= LAST_TOKEN and inc + 1 or 0, t)
local token = max(floor_at(t), seen_token(argv[2]))
if not (last and last >= token) then call('HSET', META, 'token', num(token)) end
call('HSET', META, 'incarnation', num(inc), 'server', argv[3], 'hold', num(t + argv[4]), 'grace', num(t + argv[5]), 'armed', 0,
  'duty', '')
return { 'OK', num(inc) }
