-- Headers of the notifications that wait for a job: first|next|bytes.

-- The most that wait for one job: the highest value of nt_cap.
local NOTES_MAX = 1000

-- The first number as it stands there; then the first one, the one behind the last, and the bytes of all. Nil for what
-- the pool cannot have written: nothing loops over that.
local function span_of(header)
  local text, next_, bytes = match(header, '^(%d+)|(%d+)|(%d+)$')
  if not text or #next_ > 15 or #bytes > 15 then return nil end
  local first, ending = tonumber(text), tonumber(next_)
  if ending <= first or ending - first > NOTES_MAX then return nil end
  return text, first, ending, tonumber(bytes)
end
