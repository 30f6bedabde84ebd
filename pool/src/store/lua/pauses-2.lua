#!lua flags=no-writes
-- Why jobs wait, and until when: their last error, and their place in the sweeper's queue.
-- KEYS: q je
-- ARGV: key*
-- Returns: OK, then per job its score or '', and its error or ''
--@base
local out = { 'OK' }
for from = 1, #argv, 1024 do
  local upto = math.min(from + 1023, #argv)
  local scores = redis.pcall('ZMSCORE', Q, unpack(argv, from, upto))
  local errors = redis.pcall('HMGET', JE, unpack(argv, from, upto))
  for i = from, upto do
    local score = tonumber(scores[i - from + 1] or nil)
    out[2 * i] = score and num(math.floor(math.min(math.max(score, 0), 2 ^ 52))) or ''
    out[2 * i + 1] = errors[i - from + 1] or ''
  end
end
return out
