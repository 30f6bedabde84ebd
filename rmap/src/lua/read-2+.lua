#!lua flags=no-writes
-- Compares a map with the caller's copy, and reads it in the same atomic step if they differ and it is not
-- too big.
-- KEYS: meta hash, and deadlines if the map has them
-- ARGV: incarnation field, revision field, most entries to read ('' for all), then incarnation, revision and stamp of
-- the caller's copy, or nothing
-- Returns: {seconds, microseconds, end}: the time by the server's clock, and the end of the map in ms (below 0: never).
-- This is all when the copy is up to date. Else there follows
--   {} without a map;
--   the number of entries, if there are too many;
--   {inc, rev, stamp, life or false, {field, value, ...}, {field, deadline, ...}} otherwise.
local time = redis.call('TIME')
local head = redis.call('HMGET', KEYS[1], ARGV[1], ARGV[2], ARGV[2] .. ':at', ARGV[2] .. ':ttl')
local inc, rev, stamp = head[1], head[2] or '0', head[3] or '0'
local reply = { time[1], time[2], redis.call('PEXPIRETIME', KEYS[1]) }
local is_same = ARGV[4] == (inc or nil) and (not inc or rev == ARGV[5] and stamp == ARGV[6])
if is_same then return reply end
if not inc then
  reply[4] = {}
  return reply
end
local most, length = tonumber(ARGV[3]), redis.call('HLEN', KEYS[2])
if most and length > most then
  reply[4] = length
  return reply
end
local entries = redis.call('HGETALL', KEYS[2])
local deadlines = KEYS[3] and redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES') or {}
reply[4] = { inc, rev, stamp, head[4], entries, deadlines }
return reply
