-- Appends an event to the stream of a job's owner. It is made for a member only: that of another nobody reads, nor deletes.
local function send(stream, event)
  if call('XADD', stream, 'NOMKSTREAM', '*', unpack(event, 1, event.n)) then return end
  if redis.pcall('HEXISTS', W, event.owner) == 1 then call('XADD', stream, '*', unpack(event, 1, event.n)) end
end
