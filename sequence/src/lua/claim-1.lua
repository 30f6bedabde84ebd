-- Takes a progress over for a token, and stores the default where nothing is stored.
-- KEYS: progress
-- ARGV: consumer, token, default index
-- Returns: {'OK', index} | {'FENCED', the later owner's token} | {'DAMAGED'}
local kept = redis.call('HGET', KEYS[1], ARGV[1])
local index = ARGV[3]
if kept then
  local token
  token, index = string.match(kept, '^1|(%d+)|(%d+)$')
  if not token then return { 'DAMAGED' } end
  if less(ARGV[2], token) then return { 'FENCED', token } end
end
redis.call('HSET', KEYS[1], ARGV[1], '1|' .. ARGV[2] .. '|' .. index)
return { 'OK', index }
