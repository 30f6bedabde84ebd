-- Outcomes of ids that callers gave.

-- The version of entries that is written, and the newest that is read.
local OWN_VERSION = 1

-- The entry of a caller's id; nil when there is none. False when it cannot be read, and then its version if that is
-- newer, else 0.
local function known(id)
  local packed = call('HGET', OUTCOMES, id)
  if not packed then return nil end
  local ok, entry = pcall(cmsgpack.unpack, packed)
  if not ok or type(entry) ~= 'table' then return false, 0 end
  local version = entry.v
  if version == OWN_VERSION then
    if entry.outcome == nil or type(entry.outcome) == 'string' then return entry end
    return false, 0
  end
  return false, type(version) == 'number' and version > OWN_VERSION and version or 0
end

-- The same dispatch: a caller's own id is the same from every node.
local function same(id, other)
  if id == other then return true end
  local own = match(id, '%.!(.+)$')
  return own ~= nil and own == match(other, '%.!(.+)$')
end

-- Whether the id stands for these bytes; an entry without a hash stands for any.
local function stands_for(entry, key, hash) return entry.key == key and (entry.hash == '' or entry.hash == hash) end

-- Whether the outcome is that of a former use of the id: a dispatch that was accepted later cannot have had it.
local function is_former(entry, created)
  return created ~= nil and entry.outcome and type(entry.at) == 'number' and tonumber(created) > entry.at
end

-- Writes the outcome of a dispatch whose id the caller gave: once; it is kept for retention_ms.
local function settle(id, outcome, t, retention_ms)
  local dot = find(id, '.!', 1, true)
  local own = dot and sub(id, dot + 2)
  local entry = own and known(own)
  if entry and not entry.outcome and entry.gen == id then
    -- The clock may have gone back since the dispatch was accepted.
    entry.outcome, entry.at = outcome, math.max(t, tonumber(entry.at) or 0)
    call('HSET', OUTCOMES, own, cmsgpack.pack(entry))
    call('ZADD', ENDED, t + retention_ms, '!' .. own)
  end
end
