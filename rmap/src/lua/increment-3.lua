-- Adds to a field that holds a decimal number of 64 bits; an absent field counts as 0.
-- KEYS, ARGV: as own.lua, then field, number to add
-- Returns: {inc, rev, stamp, sum} | NOTANUMBER | OVERFLOW
local before = present(ARGV[5])
if before then
  -- Writes the text that HINCRBY leaves with put, as a revision: a Lua number has only 53 bits.
  local sum = redis.pcall('HINCRBY', HASH, ARGV[5], ARGV[6])
  if type(sum) == 'table' and sum.err then
    if string.find(sum.err, 'overflow', 1, true) then return redis.error_reply('OVERFLOW the sum has more than 64 bits') end
    if string.find(sum.err, 'not an integer', 1, true) then return redis.error_reply('NOTANUMBER the value is no number') end
    return sum
  end
end
local sum = before and redis.call('HGET', HASH, ARGV[5]) or ARGV[6]
local inc, rev, stamp = put({ ARGV[5], entry(sum) })
return { inc, rev, stamp, sum }
