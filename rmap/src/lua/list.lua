-- Lists as values: a MessagePack array of strings.
-- The items of a value, {} when there is none, nil when it is no list.
local function items_of(value)
  if not value then return {} end
  local fine, list, more = pcall(cmsgpack.unpack, value)
  if not fine or type(list) ~= 'table' or more ~= nil then return nil end
  local count = 0
  for index, item in pairs(list) do
    if type(index) ~= 'number' or type(item) ~= 'string' then return nil end
    count = count + 1
  end
  return count == #list and list or nil
end

local LONGEST = 1048576
local no_list = redis.error_reply('NOTALIST the value is no list')

-- The reply to a call that leaves this list behind.
local function put_list(field, list, result)
  local value = false
  if #list > 0 then
    value = cmsgpack.pack(list)
    if #value > LONGEST then return redis.error_reply('TOOLONG ' .. #value) end
    value = entry(value)
  end
  local inc, rev, stamp = put({ field, value })
  return { inc, rev, stamp, result }
end
