#!lua flags=no-writes
-- Looks dispatches up: the key's record, whether the dispatch is remembered as ended, the entry of a caller's own id.
-- KEYS: jobs ended outcomes
-- ARGV: (key, id or '')*
-- Returns: OK, then per dispatch {record or nil, ended 0|1, outcome or nil, the version of the id's entry if that
--          cannot be read (0: it is damaged), else ''}
--@base
--@outcome
local keys, out = {}, { 'OK' }
for i = 1, #argv, 2 do keys[#keys + 1] = argv[i] end
local stored = call('HMGET', JOBS, unpack(keys))
for i = 1, #keys do
  local id, outcome = argv[2 * i], nil
  local ended = id ~= '' and call('ZSCORE', ENDED, id)
  local own = match(id, '%.!(.+)$')
  local entry, unread
  if own then entry, unread = known(own) end
  if entry and entry.key == keys[i] then outcome = entry.outcome end
  out[i + 1] = { stored[i], ended and 1 or 0, outcome or false, unread and num(unread) or '' }
end
return out
