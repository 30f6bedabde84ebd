-- Checkpoints: `h:<key>` is version|token|number|when, `b:<key>` the bytes as they were given.

-- The token under which a checkpoint was given, and its number; nil for a header that the pool cannot have written.
local function given(header)
  local token, number, at = match(header, '^1|(%d+)|(%d+)|(%d+)$')
  if token and #token < 17 and #number < 16 and #at < 16 then return token, number end
  return nil
end

-- The header and the bytes of each of these jobs; nothing of a key of another type.
local function checkpoints_of(...)
  local fields = {}
  for i, key in ipairs({ ... }) do fields[2 * i - 1], fields[2 * i] = 'h:' .. key, 'b:' .. key end
  local found = redis.pcall('HMGET', CHECKPOINTS, unpack(fields))
  return found.err and {} or found
end
