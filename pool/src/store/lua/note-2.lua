#!lua
-- Appends an entry to the pool's history: hints for people. The stream is made where there is none, and one of another
-- type is replaced.
-- KEYS: pool history
-- ARGV: inc, how many entries to keep, 1 to 100,000; the entry
-- Returns: OK
--@base
--@guard
local head, refusal = guard(true)
if not head then return refusal end
local most = num(math.max(1, math.min(tonumber(argv[2]), 100000)))
local function append() return redis.pcall('XADD', HISTORY, 'MAXLEN', most, '*', 'e', argv[3]) end
local id = append()
if type(id) ~= 'string' then
  call('UNLINK', HISTORY)
  id = append()
end
return { 'OK' }
