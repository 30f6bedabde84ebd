#!lua flags=no-writes
-- Jobs as they are, with what their children came to.
-- KEYS: meta queues jobs bodies extras ready groups index
-- ARGV: inc, 1 with the ends of children, 2 the first job goes on with those behind one of them, or '', that one, id*
-- Returns: OK, then per job, in their order until an answer of 1 MiB or 4,096 ends is full: record or false, body, result,
--          notes, begins, ends, more. Begins: the time when the limit of its group lets it begin, ms; 0 when nothing is
--          in its way.
--          Ends: a list of child, end and text. More: the child behind which there are more of them, or false.
--          A job that goes on has no body, no result and no notes
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

local out, bytes, ends, ids = { 'OK' }, 0, 0, { unpack(argv, 4) }

-- The ends of its children, from one on, until the answer is full; and behind which of them there are more.
local function children_of(j, behind)
  local list, prefix = {}, 'c:' .. j.id .. '#' .. j.birth
  local from = behind == '' and '[' .. prefix .. '|' or '(' .. prefix .. '|' .. behind
  while true do
    local members = call('ZRANGE', INDEX, from, '(' .. prefix .. '}', 'BYLEX', 'LIMIT', 0, 128)
    for i = 1, #members do
      if bytes > 1048576 or ends == 4096 then return list, behind end
      local text, z = call('HGET', EXTRAS, members[i]) or 'X', #list
      behind = sub(members[i], #prefix + 2)
      list[z + 1], list[z + 2], list[z + 3] = behind, sub(text, 1, 1), sub(text, 2)
      bytes, ends = bytes + #behind + #text, ends + 1
    end
    if #members < 128 then return list, false end
    from = '(' .. members[128]
  end
end

read(ids)
for i = 1, #ids do
  local j, z = sound(ids[i]), #out
  if j then
    local goes_on = argv[2] == '2' and i == 1
    out[z + 1], out[z + 2], out[z + 3], out[z + 4] = pack(j), '', '', ''
    if not goes_on then
      out[z + 2], out[z + 3] = call('HGET', BODIES, j.id) or '', call('HGET', EXTRAS, 'r:' .. j.id) or ''
      if has(j, 'n') then out[z + 4] = call('HGET', EXTRAS, 'n:' .. j.id) or '' end
    end
    bytes = bytes + #out[z + 2] + #out[z + 3] + #out[z + 4]
    local children, behind = {}, false
    if argv[2] ~= '' and has(j, 'c') then children, behind = children_of(j, goes_on and argv[3] or '') end
    out[z + 5], out[z + 6], out[z + 7] = num(begins_at(j)), children, behind
    if behind or bytes > 1048576 then break end
  else
    out[z + 1], out[z + 2], out[z + 3], out[z + 4] = false, '', '', ''
    out[z + 5], out[z + 6], out[z + 7] = '0', {}, false
  end
end
return out
