#!lua
-- Makes the data of a set, once. A wiped set begins above every token that the caller has seen, and above all that the
-- clock could have given out before.
-- KEYS: meta
-- ARGV: highest token seen, the server's identity
-- Returns: EXISTS, inc, the identity of the server that it was last found on, 1 when a recovery has begun inc or 0
--        | CREATED, inc
--@words
--@clock
local head = call('HMGET', META, 'incarnation', 'server', 'hold')
if head[1] then return { 'EXISTS', head[1], head[2] or '', (head[3] or '0') ~= '0' and 1 or 0 } end
local t = now()
local token = max(floor_at(t), tonumber(argv[1]) or 0)
call('HSET', META, 'incarnation', num(t), 'token', num(token), 'hold', 0, 'grace', 0, 'armed', 0, 'duty', '', 'ticked', num(t),
  'server', argv[2])
return { 'CREATED', num(t) }
