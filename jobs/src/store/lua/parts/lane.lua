-- The last call of the caller's lane, argv[2] is the number of this one. A call that is sent again is answered again, an
-- older one is refused. A lane that cannot be read is none.
local before = redis.pcall('GET', LANE)
local number, answer = match(type(before) == 'string' and before or '', '^(%d+)|(.*)$')
if number then
  if number == argv[2] then return { 'OK', answer } end
  if #number > #argv[2] or #number == #argv[2] and number > argv[2] then return { 'LATE' } end
end
