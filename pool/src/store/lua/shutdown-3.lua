#!lua flags=allow-oom
-- Sets or advances the shutdown flag: C|deadline|by closing, S|deadline|by stopping after that, S||by at once.
-- KEYS: m cf ch
-- ARGV: inc, by, mode closing|drop_queued|advance, time for closing ms
-- Returns: OK flag or ''
-- Publishes: cf, the flag
--@base
--@guard
--@clock
--@change
local head, refusal = guard(true)
if not head then return refusal end
local by, mode = argv[2], argv[3]
local flag, t = call('HGET', CF, 'sd'), now()
local closing = flag and byte(flag) == 67
local changed = nil
if mode == 'advance' then
  local deadline, asked = match(flag or '', '^C|(%d+)|(.*)$')
  local nothing_queued = head[2] == 'N' and (tonumber(head[5]) or 0) <= 0
  if deadline and (t >= tonumber(deadline) or nothing_queued) then changed = 'S|' .. deadline .. '|' .. asked end
elseif mode == 'drop_queued' then
  if not flag or closing then changed = 'S||' .. by end
elseif not flag then
  changed = 'C|' .. num(t + argv[4]) .. '|' .. by
end
if changed then
  mapput('cf', CF, M, 'cv', CH, argv[1], { 'sd', changed })
  flag = changed
end
return { 'OK', flag or '' }
