-- Lists as values: a MessagePack array of strings.
-- The number of items that the header announces; nil when it is not an array's header.
local function announced(value)
  local kind, a, b, c, d = string.byte(value, 1, 5)
  if not kind then return nil end
  if kind >= 144 and kind <= 159 then return kind - 144 end
  if kind == 220 and b then return a * 256 + b end
  if kind == 221 and d then return ((a * 256 + b) * 256 + c) * 256 + d end
  return nil
end

-- The items of a value: {} without a value, nil when it is not a list.
local function items_of(value)
  if not value then return {} end
  local length = announced(value)
  if not length then return nil end
  -- rest is -1 at the end of the value.
  local fine, rest, list = pcall(cmsgpack.unpack_one, value)
  if not fine or rest ~= -1 then return nil end
  for i = 1, length do
    if type(list[i]) ~= 'string' then return nil end
  end
  return list
end

local LONGEST, MOST = 1048576, 65536
local no_list = redis.error_reply('NOTALIST the value is no list')

-- Writes a list that had `before` items, and returns the reply of the call.
local function put_list(field, list, before, result)
  local value = false
  if #list > MOST and #list > before then return redis.error_reply('TOOMANY ' .. #list) end
  if #list > 0 then
    value = cmsgpack.pack(list)
    if #value > LONGEST and #list > before then return redis.error_reply('TOOLONG ' .. #value) end
    value = entry(value)
  end
  local inc, rev, stamp = put({ field, value })
  return { inc, rev, stamp, result }
end
