#!lua flags=allow-oom
-- Executions go on: their leases begin anew.
-- KEYS: meta queues jobs leases
-- ARGV: inc, count of tokens, token*, a byte per job: its token; then id*
-- Returns: OK, the shortest lease of these jobs, a letter per job: U goes on | V goes on, was asked for again |
--          Z goes on, somebody wants it cancelled | H halt: not its execution
--@base
local of_tokens = 2
local token_of, base = argv[of_tokens + argv[of_tokens] + 1], of_tokens + argv[of_tokens] + 1
local n = #argv - base
local records = n > 0 and call('HMGET', JOBS, unpack(argv, base + 1, base + n)) or {}
local letters, leases, lease_of, shortest = {}, {}, {}, 0
for i = 1, n do
  local running, letter = '1|R|' .. argv[of_tokens + byte(token_of, i)] .. '|', 'H'
  local record = records[i]
  if record and sub(record, 1, #running) == running then
    local again, flags, queue = match(record, '^%d+|[^|]*|(%d*)|(%a*)|[^|]*|%d+|%-?%d+|([^|]+)|', #running + 1)
    if queue then
      if not lease_of[queue] then
        lease_of[queue] = tonumber(match(call('HGET', QUEUES, queue) or '', '^[gopz-]+|(%d+)|')) or 30000
      end
      local lease = lease_of[queue]
      if shortest == 0 or lease < shortest then shortest = lease end
      leases[#leases + 1] = num(t + lease)
      leases[#leases + 1] = argv[base + i]
      letter = find(flags, 'x', 1, true) and 'Z' or again ~= '' and 'V' or 'U'
    end
  end
  letters[i] = letter
end
if #leases > 0 then call('ZADD', LEASES, unpack(leases)) end
return { 'OK', num(shortest), table.concat(letters) }
