-- Why a job is where it is: a letter and its former worker, in the field behind the generation. It is written into records
-- that change anyway. A refusal with a reason has `+` and the worker's words behind, cut after REFUSAL_MAX bytes.
local REFUSAL_MAX = 200

-- Says why a job leaves its owner, with the owner's words or none. A job without an owner keeps its former worker. A refusal
-- without words leaves a former one with words in its place.
local function because(p, letter, said)
  local generation, why, rest = match(p.tail, '^|([^|]*)|([^|]*)(.*)$')
  if not why then generation, why, rest = match(p.tail, '^|([^|]*)') or '', '', '' end
  said = said and said ~= '' and '+' .. gsub(shortened(said, REFUSAL_MAX), '[|%c]', ' ') or ''
  if letter == 'r' and said == '' and find(why, '^r%d*%+.') then return end
  local former = p.owner
  if former == '' then
    former = match(why, '^%l(%d+)$') or match(why, '^z(%d+)%+%d+$') or match(why, '^r(%d+)%+') or ''
    if not fits(former) then former = '' end
  end
  p.tail = '|' .. generation .. '|' .. letter .. former .. said .. rest
end
