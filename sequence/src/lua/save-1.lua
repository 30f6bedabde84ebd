-- Stores a progress of the token's owner. A lower one than is stored changes nothing.
-- KEYS: progress
-- ARGV: consumer, token, index
-- Returns: {'OK', index} | {'FENCED', the later owner's token} | {'DAMAGED'}
local kept = redis.call('HGET', KEYS[1], ARGV[1])
local index = ARGV[3]
if kept then
  local token, stored = string.match(kept, '^1|(%d+)|(%d+)$')
  if not token then return { 'DAMAGED' } end
  if less(ARGV[2], token) then return { 'FENCED', token } end
  if less(index, stored) then index = stored end
end
redis.call('HSET', KEYS[1], ARGV[1], '1|' .. ARGV[2] .. '|' .. index)
return { 'OK', index }
