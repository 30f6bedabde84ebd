-- The last call of the caller's lane, argv[2] is the number of this one. A call that is sent again is answered again, an
-- older one is refused.
local before = call('GET', LANE)
if before then
  local number, answer = match(before, '^(%d+)|(.*)$')
  if number == argv[2] then return { 'OK', answer } end
  if tonumber(number) > tonumber(argv[2]) then return { 'LATE' } end
end
