#!lua
-- The owner keeps checkpoints of its jobs, each in place of the one before. A copy that comes late undoes nothing. One
-- that the owner was given itself says so with its token, and gives way to every newer one.
-- KEYS: pool settings jobs checkpoints
-- ARGV: inc, wid, count of tokens, token*, a byte per job: which token it has; count of tokens, token*, a byte per job:
--       under which of these its checkpoint was given; then key*, number*, bytes*
-- Returns: OK, a letter per job, K kept, or a newer one is | S not the owner | R recovering and no record | L too long |
--          X checkpoints is of another type
--@base
--@guard
--@clock
--@settings
--@checkpoints
local head, refusal = guard(true)
if not head then return refusal end
local _, most = settings('checkpoint_max')
local wid, of_tokens = argv[2], 3
local of_givens = of_tokens + argv[of_tokens] + 2
local base = of_givens + argv[of_givens] + 1
local n, token_of, given_of = (#argv - base) / 3, argv[of_givens - 1], argv[base]
local of_numbers, of_bytes = base + n, base + 2 * n
local stored, headers = call('HMGET', JOBS, unpack(argv, base + 1, of_numbers)), {}
for i = 1, n do headers[i] = 'h:' .. argv[base + i] end
local known, ts = redis.pcall('HMGET', CHECKPOINTS, unpack(headers)), num(now())
local letters, fields, written = {}, {}, {}
local at, last, running, stopping = '|' .. ts, nil, nil, nil

-- Whether the present checkpoint is this one, or a newer one.
local function is_late(header, token, of, number)
  local theirs, count = given(header or '')
  if not theirs then return false end
  if theirs == of then return #count > #number or #count == #number and count >= number end
  return of ~= token and tonumber(theirs) > tonumber(of)
end

for i = 1, n do
  local key, r, letter = argv[base + i], stored[i], 'S'
  local token, of = argv[of_tokens + byte(token_of, i)], argv[of_givens + byte(given_of, i)]
  if token ~= last then
    last, running, stopping = token, '1|R|' .. wid .. '|' .. token .. '|', '1|S|' .. wid .. '|' .. token .. '|'
  end
  if not r then
    letter = head[2] == 'R' and 'R' or 'S'
  elseif find(r, running, 1, true) == 1 or find(r, stopping, 1, true) == 1 then
    local number, state = argv[of_numbers + i], argv[of_bytes + i]
    local late = is_late(written[key] or known[i], token, of, number)
    letter = 'K'
    if not late and #state > most then
      letter = 'L'
    elseif known.err then
      letter = 'X'
    elseif not late then
      local j = #fields
      written[key] = '1|' .. of .. '|' .. number .. at
      fields[j + 1], fields[j + 2], fields[j + 3], fields[j + 4] = headers[i], written[key], 'b:' .. key, state
    end
  end
  letters[i] = letter
end
if #fields > 0 then call('HSET', CHECKPOINTS, unpack(fields)) end
return { 'OK', table.concat(letters) }
