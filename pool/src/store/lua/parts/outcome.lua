-- Outcomes of ids that callers gave.

-- The entry of a caller's id; nil when there is none, false when it cannot be read.
local function known(id)
  local packed = call('HGET', OD, id)
  if not packed then return nil end
  local ok, entry = pcall(cmsgpack.unpack, packed)
  return ok and type(entry) == 'table' and entry
end

-- The same dispatch: a caller's own id is the same from every node.
local function same(id, other)
  if id == other then return true end
  local own = match(id, '%.!(.+)$')
  return own ~= nil and own == match(other, '%.!(.+)$')
end

-- Whether the id stands for these bytes; an entry without a hash stands for any.
local function stands_for(entry, key, hash) return entry.key == key and (entry.hash == '' or entry.hash == hash) end

-- Writes the outcome of a dispatch whose id the caller gave: once; it is kept for od_ms.
local function settle(id, outcome, t, od_ms)
  local own = match(id, '%.!(.+)$')
  local entry = own and known(own)
  if entry and not entry.outcome and entry.gen == id then
    entry.outcome = outcome
    call('HSET', OD, own, cmsgpack.pack(entry))
    call('ZADD', TB, t + od_ms, '!' .. own)
  end
end
