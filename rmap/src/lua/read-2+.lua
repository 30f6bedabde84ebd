#!lua flags=no-writes
-- Compares a map with what the caller has, and reads it in the same atomic step, unless it is too big for that.
-- KEYS: meta hash, and deadlines of a map that has them
-- ARGV: incarnation field, revision field, how many entries are read at most ('' for all), then incarnation, revision
-- and stamp that the caller has, or nothing
-- Returns: {seconds, microseconds, end}, the time by the server's clock and when the map ends in ms (below 0: never),
-- alone when the caller has what there is, else followed by {} without a map | how many entries are too many |
-- {inc, rev, stamp, life or false, {field, value, ...}, {field, deadline, ...}}
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
