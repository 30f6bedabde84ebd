#!lua flags=allow-oom
-- A node wants news of jobs, or no more. It is told how each of them is in the same step. A job that has ended has no more
-- news, and is not watched.
-- KEYS: meta jobs bodies extras
-- ARGV: inc, node, the number of its call, 1 to watch, 2 to watch and hear nothing of their data, or 0, id*
-- Returns: OK, then per job: record or false, body, result, notes. With their data an answer of 1 MiB is full, and the
--          rest of the jobs is left as it was
--@base
--@records
local node, number, on, bytes = argv[2], argv[3], argv[4] ~= '0', 0
if not is_name(node) or not (#number < 17 and match(number, '^%d+$')) then return { 'BADARG' } end
local out, ids = { 'OK' }, { unpack(argv, 5) }
read(ids)
for i = 1, #ids do
  local j, z = sound(ids[i]), #out
  if not j then
    out[z + 1], out[z + 2], out[z + 3], out[z + 4] = false, '', '', ''
  else
    local field = 's:' .. j.id
    local stored, nodes, last = call('HGET', EXTRAS, field), {}, nil
    for entry, name, of in string.gmatch(stored or '', '(([^,#]+)#(%d+))') do
      if name == node then last = tonumber(of) else nodes[#nodes + 1] = entry end
    end
    -- A call that comes late takes back no later one.
    local own, stays = tonumber(number), on and (last or not is_over(j))
    if last and last > own then own, stays = last, true end
    if stays then nodes[#nodes + 1] = node .. '#' .. num(own) end
    if #nodes > 0 then call('HSET', EXTRAS, field, table.concat(nodes, ',')) elseif stored then call('HDEL', EXTRAS, field) end
    if #nodes > 0 ~= has(j, 'w') then
      if #nodes > 0 then flag(j, 'w') else unflag(j, 'w') end
      call('HSET', JOBS, j.id, pack(j))
    end
    out[z + 1], out[z + 2], out[z + 3], out[z + 4] = pack(j), '', '', ''
    if argv[4] == '1' then
      out[z + 2], out[z + 3] = call('HGET', BODIES, j.id) or '', call('HGET', EXTRAS, 'r:' .. j.id) or ''
      if has(j, 'n') then out[z + 4] = call('HGET', EXTRAS, 'n:' .. j.id) or '' end
      bytes = bytes + #out[z + 2] + #out[z + 3] + #out[z + 4]
      if bytes > 1048576 then break end
    end
  end
end
return out
