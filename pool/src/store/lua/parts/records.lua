-- Ownership records: 1|state|owner|token|attempts|begun|since|id|created|ainc|mix|plan and a tail that is kept.
-- REST matches what follows the token, up to the plan, and BEHIND what follows the time since when; a record that does
-- not match is answered, never touched.
local ID = '[0-9A-Za-z_:-]+%.!?[0-9A-Za-z_:.-]+' -- ranges match faster than %w does
local BEHIND = '|' .. ID .. '|%d+|%d*|%d+|'
local REST = '|%d+|[012]|%d+' .. BEHIND

-- Whether clients can read it as well: numbers of 64 bits, counts of 32, names of 64 bytes.
local function fits(number) return #number < 20 or #number == 20 and number <= '18446744073709551615' end
local function is_count(number) return #number < 10 or fits(number) and tonumber(number) <= 4294967295 end
local function is_id(id)
  local dot = find(id, '.', 1, true)
  return dot <= 65 and #id - dot <= (byte(id, dot + 1) == 33 and 65 or 64)
end

local function parse(r)
  local state, owner, token, attempts, begun, since, id, created, ainc, mix, plan, tail = match(r,
    '^1|([QARSP])|(%d*)|(%d+)|(%d+)|([012])|(%d+)|(' .. ID .. ')|(%d+)|(%d*)|(%d+)|([^|]*)(.*)$')
  if not state or not is_id(id) or not is_count(attempts) or not is_count(mix) then return nil end
  if not (fits(owner) and fits(token) and fits(since) and fits(created) and fits(ainc)) then return nil end
  return { state = state, owner = owner, token = token, attempts = attempts, begun = begun, since = since, id = id,
    created = created, ainc = ainc, mix = mix, plan = plan, tail = tail }
end

local function pack(p)
  return '1|' .. p.state .. '|' .. p.owner .. '|' .. p.token .. '|' .. p.attempts .. '|' .. p.begun .. '|' .. p.since
    .. '|' .. p.id .. '|' .. p.created .. '|' .. p.ainc .. '|' .. p.mix .. '|' .. p.plan .. p.tail
end
