#!lua
-- Lets a consumer into a group whose settings equal its own. Creates the group and its stream if they are
-- missing. A consumer that never has an entry represents the settings, which therefore live and go with the
-- group. They hold while another consumer lives; after that the caller's settings replace them.
-- KEYS: stream
-- ARGV: group, consumer, the id behind which a new group begins or '$', the consumer that represents these
-- settings, the prefix of such consumers' names, the consumer that represents all who have left, the idle ms
-- of a dead consumer, '1' to get in | '0' to ask whether it could
-- Returns: {1 when the group was missing | 0, the consumer that represents other settings, which hold | nil}
local key, group, own, settings = KEYS[1], ARGV[1], ARGV[2], ARGV[4]
local is_missing, is_agreed, is_shared, others = redis.call('EXISTS', key) == 0, false, false, false
if not is_missing then
  local consumers = redis.pcall('XINFO', 'CONSUMERS', key, group)
  is_missing = consumers.err and string.find(consumers.err, 'NOGROUP', 1, true)
  if consumers.err and not is_missing then return consumers end
  for _, info in ipairs(consumers) do
    local consumer = {}
    for i = 1, #info, 2 do consumer[info[i]] = info[i + 1] end
    local name = consumer.name
    if name == settings then
      is_agreed = true
    elseif string.sub(name, 1, #ARGV[5]) == ARGV[5] then
      others = name
    elseif name ~= own and name ~= ARGV[6] and consumer.idle < tonumber(ARGV[7]) then
      is_shared = true
    end
  end
end
if others and is_shared then return {0, others} end
if ARGV[8] == '1' then
  if is_missing then redis.call('XGROUP', 'CREATE', key, group, ARGV[3], 'MKSTREAM') end
  if others then redis.call('XGROUP', 'DELCONSUMER', key, group, others) end
  if not is_agreed then redis.call('XGROUP', 'CREATECONSUMER', key, group, settings) end
  redis.call('XGROUP', 'CREATECONSUMER', key, group, own)
end
return {is_missing and 1 or 0, false}
