-- Appends outcomes, { id, outcome, .. } by number, to the streams of nodes that follow the first `fixed` KEYS. A hint:
-- a stream that is not there is not made, and a node that is slower than its bound asks for the outcomes instead.
local function tell_nodes(fixed, events)
  for x, event in pairs(events) do
    call('XADD', KEYS[fixed + x], 'NOMKSTREAM', 'MAXLEN', '~', '1024', '*', unpack(event))
  end
end
