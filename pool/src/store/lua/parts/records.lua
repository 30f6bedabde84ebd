-- Ownership records: 1|state|owner|token|attempts|begun|since|id|created|ainc|mix|plan and a tail that is kept.
-- REST matches what follows the token, up to the plan, and BEHIND what follows the time since when; a record that does
-- not match is answered, never touched.
local ID = '[0-9A-Za-z_:-]+%.!?[0-9A-Za-z_:.-]+' -- ranges match faster than %w does
local BEHIND = '|' .. ID .. '|%d+|%d*|%d+|'
local REST = '|%d+|[012]|%d+' .. BEHIND

local function parse(r)
  local state, owner, token, attempts, begun, since, id, created, ainc, mix, plan, tail = match(r,
    '^1|([QARSP])|(%d*)|(%d+)|(%d+)|([012])|(%d+)|(' .. ID .. ')|(%d+)|(%d*)|(%d+)|([^|]*)(.*)$')
  if not state then return nil end
  return { state = state, owner = owner, token = token, attempts = attempts, begun = begun, since = since, id = id,
    created = created, ainc = ainc, mix = mix, plan = plan, tail = tail }
end

local function pack(p)
  return '1|' .. p.state .. '|' .. p.owner .. '|' .. p.token .. '|' .. p.attempts .. '|' .. p.begun .. '|' .. p.since
    .. '|' .. p.id .. '|' .. p.created .. '|' .. p.ainc .. '|' .. p.mix .. '|' .. p.plan .. p.tail
end
