-- Jobs that somebody may have in hand do not wait for their first start any more: write_confirmed() counts them.
local confirmed = 0
local function confirm(p)
  if p.begun == '0' then p.begun, confirmed = '1', confirmed + 1 end
end
local function write_confirmed()
  if confirmed > 0 then count('queued', -confirmed) end
end
