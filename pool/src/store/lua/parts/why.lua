-- Why a job is where it is: a letter and its former worker, in the field behind the generation. It is written into records
-- that change anyway.

-- Says why it leaves its owner. One that has no owner keeps its former worker.
local function because(p, letter)
  local generation, why, rest = match(p.tail, '^|([^|]*)|([^|]*)(.*)$')
  if not why then generation, why, rest = match(p.tail, '^|([^|]*)') or '', '', '' end
  local former = p.owner
  if former == '' then
    former = match(why, '^%l(%d+)$') or match(why, '^z(%d+)%+%d+$') or ''
    if not fits(former) then former = '' end
  end
  p.tail = '|' .. generation .. '|' .. letter .. former .. rest
end
