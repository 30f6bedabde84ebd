#!lua flags=no-writes
-- Jobs as they are, with what their children came to.
-- KEYS: meta queues jobs bodies extras ready groups index
-- ARGV: inc, 1 with the ends of children or '', id*
-- Returns: OK, then per job, in their order until an answer of 1 MiB is full: record or false, body, result, the time when the limit of its group lets it begin (ms, 0 when
--          nothing is in its way), a list of child, end and text
--@base
--@records
--@queues
local function begins_at(j)
  local q = queue_of(j.queue)
  if j.state ~= 'Q' or not q.grouped then return 0 end
  local key = q.name .. '|' .. j.group
  local window, used, blocked, n, w = match(call('HGET', GROUPS, key) or '',
    '^%d+|%d+|%d+|(%d+)|(%d+)|(%d+)|[qb-]|p?|(%d*)|(%d*)|')
  if not window then return 0 end
  n, w, blocked = tonumber(n) or q.group_limit, tonumber(w) or q.group_window, tonumber(blocked)
  local at = 0
  if n > 0 and w > 0 then
    local begins = floor(t / w) * w
    local left = tonumber(window) == begins and max(0, n - used) or n
    local rank = call('ZLEXCOUNT', READY, '[' .. key .. '|', '(' .. key .. '|' .. j.place .. j.id)
    if rank >= left then at = begins + w + floor((rank - left) / n) * w end
  end
  return blocked > t and max(blocked, at) or at
end

local function children_of(j)
  local out, bytes = {}, 0
  if argv[2] ~= '1' or not has(j, 'c') then return out, bytes end
  local of = j.id .. '#' .. j.birth
  local members = call('ZRANGE', INDEX, '[c:' .. of .. '|', '(c:' .. of .. '}', 'BYLEX', 'LIMIT', 0, 4096)
  for i = 1, #members do
    local text = call('HGET', EXTRAS, members[i]) or 'X'
    local z = #out
    out[z + 1], out[z + 2], out[z + 3] = sub(members[i], #of + 4), sub(text, 1, 1), sub(text, 2)
    bytes = bytes + #out[z + 1] + #out[z + 3]
  end
  return out, bytes
end

local out, bytes, ids = { 'OK' }, 0, { unpack(argv, 3) }
read(ids)
for i = 1, #ids do
  local j, z = sound(ids[i]), #out
  if j then
    out[z + 1], out[z + 2], out[z + 3] = pack(j), call('HGET', BODIES, j.id) or '', call('HGET', EXTRAS, 'r:' .. j.id) or ''
    local children, more = children_of(j)
    out[z + 4], out[z + 5] = num(begins_at(j)), children
    bytes = bytes + #out[z + 2] + #out[z + 3] + more
    if bytes > 1048576 then break end
  else
    out[z + 1], out[z + 2], out[z + 3], out[z + 4], out[z + 5] = false, '', '', '0', {}
  end
end
return out
