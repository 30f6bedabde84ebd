#!lua flags=allow-oom
-- The set's server is another one, or its data went back: another incarnation. No job is taken for a while, and no lease
-- is taken away, so that who runs one can say so. The first caller wins.
-- KEYS: meta
-- ARGV: inc, highest token seen, the server's identity, hold_ms, grace_ms
-- Returns: OK, inc | STALEINC, inc for the others
--@base
local inc = max(tonumber(meta[1]) + 1, t)
local token = max(floor_at(t), tonumber(meta[2]) or 0, tonumber(argv[2]) or 0)
call('HSET', META, 'incarnation', num(inc), 'token', num(token), 'server', argv[3], 'hold', num(t + argv[4]), 'grace',
  num(t + argv[5]), 'armed', 0, 'duty', '')
return { 'OK', num(inc) }
