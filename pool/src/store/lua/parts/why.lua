-- Why a job is where it is: a letter and its former worker, in the field behind the generation. It is written into records
-- that change anyway. A refusal with a reason has `+` and the worker's words behind, cut after REFUSAL_MAX bytes.
local REFUSAL_MAX = 200

-- Says why a job leaves its owner, with the owner's words or none. A job without an owner keeps its former worker.
local function because(p, letter, said)
  local generation, why, rest = match(p.tail, '^|([^|]*)|([^|]*)(.*)$')
  if not why then generation, why, rest = match(p.tail, '^|([^|]*)') or '', '', '' end
  local former = p.owner
  if former == '' then
    former = match(why, '^%l(%d+)$') or match(why, '^z(%d+)%+%d+$') or match(why, '^r(%d+)%+') or ''
    if not fits(former) then former = '' end
  end
  said = said and said ~= '' and '+' .. gsub(shortened(said, REFUSAL_MAX), '[|%c]', ' ') or ''
  p.tail = '|' .. generation .. '|' .. letter .. former .. said .. rest
end
