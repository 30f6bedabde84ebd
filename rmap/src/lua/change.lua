-- Changes a replicated map: changes = { field, value or false, ... }. One revision, one message. Returns the revision.
local function mapput(name, hash, meta, rev_field, channel, inc, changes)
  local rev = string.format('%.0f', redis.call('HINCRBY', meta, rev_field, 1))
  local message = { name, inc, rev }
  for i = 1, #changes, 2 do
    local field, value = changes[i], changes[i + 1]
    if value then redis.call('HSET', hash, field, value) else redis.call('HDEL', hash, field) end
    message[#message + 1] = field
    message[#message + 1] = value
  end
  redis.call('SPUBLISH', channel, cmsgpack.pack(message))
  return rev
end
