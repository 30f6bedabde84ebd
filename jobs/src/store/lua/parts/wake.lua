-- The nodes that do not hear which one call passes over, of all queues. Owners of groups are passed over without a limit: a
-- call names a bounded number of groups, no tick makes up for them, and few nodes wait for one group.
local patience = 128

-- Jobs of a queue are ready: nodes that wait for some are woken, in the order in which they stand, until they have slots for
-- `count` or four are woken. Each of them wakes another when it has taken all that it can. A node that does not hear is
-- forgotten, and the next one is woken. The owner of a group waits under `queue/group`.
local function wake(queue, count)
  if call('EXISTS', WAITING) == 0 then return end
  local woken, cost = 0, find(queue, '/', 1, true) and 0 or 1
  while patience > 0 or cost == 0 do
    -- A key of the wrong type has no waiting nodes: waiting nodes also look by themselves.
    local found = redis.pcall('ZRANGE', WAITING, '[' .. queue .. '|', '(' .. queue .. '}', 'BYLEX', 'LIMIT', 0, 8)
    if #found == 0 then return end
    for i = 1, #found do
      local node, slots = match(found[i], '^[^|]+|%x+|([^|]+)|(%d+)$')
      call('ZREM', WAITING, found[i])
      if node and call('SPUBLISH', CHANNEL .. node, 'w|' .. queue) > 0 then
        count, woken = count - slots, woken + 1
        if count <= 0 or woken >= 4 then return end
      else
        patience = patience - cost
      end
    end
  end
  -- More are left: a tick comes at once, and goes on.
  arm(t)
end
