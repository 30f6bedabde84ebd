-- The incarnation of a stand-alone map, which begins with its first write.
local function incarnation(meta)
  local inc = redis.call('HGET', meta, 'inc')
  if not inc then
    local time = redis.call('TIME')
    inc = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
    redis.call('HSET', meta, 'inc', inc)
  end
  return inc
end
