#!lua flags=allow-oom
-- One tick for the holder of the turn, when it is due; ticks that were missed are not made up for. The tick that was
-- given out last is given again to who asks for it by its number. With memory full it still rewrites the entry, which is
-- as large as it was: the next plan may be to stop jobs.
-- KEYS: m cf sc
-- ARGV: inc, schedule, id, term, number of the tick
-- Returns: DUE now entry | WAIT now entry | STALETERM | SHUTDOWN
--@base
--@guard
--@clock
--@term
local head, refusal = guard()
if not head then return refusal end
local name, number = argv[2], tonumber(argv[5])
if not is_turn(name, argv[3], argv[4]) then return { 'STALETERM' } end
if call('HEXISTS', CF, 'sd') == 1 then return { 'SHUTDOWN' } end
local s, t = schedule(name), now()
if number == s.ticks and number > 0 then return { 'DUE', num(t), pack_schedule(s) } end
if number ~= s.ticks + 1 or s.next > t then return { 'WAIT', num(t), pack_schedule(s) } end
s.ticks = number
s.next = math.max(s.next + s.period, t + math.floor(s.period / 2))
call('HSET', SC, name, pack_schedule(s))
return { 'DUE', num(t), pack_schedule(s) }
