#!lua
-- Makes the data of a set, once. A wiped set begins above every token that the caller has seen, and above all that the
-- clock could have given out before.
-- KEYS: meta
-- ARGV: highest token seen, the server's identity
-- Returns: EXISTS, inc or 0 when the head is damaged, the identity of the server that it was last found on, 1 when a
--          recovery has begun inc or 0
--        | CREATED, inc
--@words
--@clock
--@head
local head = call('HMGET', META, 'incarnation', 'token', 'server', 'hold')
if head[1] then
  return { 'EXISTS', incarnation_of(head[1], head[2]), head[3] or '', (head[4] or '0') ~= '0' and 1 or 0 }
end
local t = now()
local token = max(floor_at(t), counted(head[2]), seen_token(argv[1]))
call('HSET', META, 'incarnation', num(t), 'token', num(token), 'hold', 0, 'grace', 0, 'armed', 0, 'duty', '', 'ticked', num(t),
  'server', argv[2])
return { 'CREATED', num(t) }
