#!lua flags=allow-oom
-- Makes a schedule, unless there is one; changes its period; ends it. A change of the period names the revision that it
-- is made from, so that one that comes late undoes no other. With memory full it still ends schedules; what else it
-- writes is small.
-- KEYS: pool settings schedules
-- ARGV: inc, schedule, create, period ms, ms until the first tick
--       | inc, schedule, period, id, revision, period ms | inc, schedule, end, id, term or ''
-- Returns: OK now entry (as it stands now) | NONE it has ended | BAD version or '' the entry does not parse. STALETERM
--          | SHUTDOWN | BADARG | NOTOKENS
--@base
--@guard
--@clock
--@term
--@tokens
local head, refusal = guard(false, 'token')
if not head then return refusal end
local name, what = argv[2], argv[3]
if not is_name(sub(name, 3)) or not match(name, '^[st]:') then return { 'BADARG' } end
local s, t = schedule(name), now()
if s == false then return { 'BAD', match(call('HGET', SCHEDULES, name), '^%d+') or '' } end

if what == 'create' then
  if not s then
    if call('HEXISTS', SETTINGS, 'shutdown') == 1 then return { 'SHUTDOWN' } end
    if not has_tokens(head[6]) then return { 'NOTOKENS' } end
    local id = num(call('HINCRBY', POOL, 'token', 1))
    s = { id = id, rev = '1', period = tonumber(argv[4]), next = t + argv[5], ticks = 0, inc = argv[1], term = '0',
      seq = '0', node = '', life = '', tail = '' }
    call('HSET', SCHEDULES, name, pack_schedule(s))
  end
  return { 'OK', num(t), pack_schedule(s) }
end

if not s or s.id ~= argv[4] then return { 'NONE' } end
if what == 'end' then
  if argv[5] ~= '' and not is_turn(name, argv[4], argv[5]) then return { 'STALETERM' } end
  call('HDEL', SCHEDULES, name)
  return { 'NONE' }
end
if s.rev == argv[5] then
  s.rev, s.period = num(s.rev + 1), tonumber(argv[6])
  s.next = math.min(s.next, t + s.period)
  call('HSET', SCHEDULES, name, pack_schedule(s))
end
return { 'OK', num(t), pack_schedule(s) }
