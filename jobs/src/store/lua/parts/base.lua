--@words
--@clock
--@head
-- Every step names the incarnation that it is for, argv[1].
local meta = call('HMGET', META, 'incarnation', 'token', 'hold', 'grace', 'armed', 'duty')
if not meta[1] then return { 'NOSET' } end
local last = tonumber(meta[2])
if meta[1] ~= argv[1] or not (last and last >= 0) then return { 'STALEINC', incarnation_of(meta[1], meta[2]) } end
local t = now()

-- A moment of the head until which it waits. A moment further away than any hold or grace does not count.
local function until_when(text)
  local at = tonumber(text) or 0
  return at <= t + 120000 and at or 0
end

-- One number for the call, rising for the whole life of the set: the token of taken jobs, the order of added jobs. A
-- used-up counter stays: running jobs come to an end, and nothing begins.
local minted
local function mint()
  if not minted then
    minted = max(floor(last) + 1, floor_at(t))
    if minted > LAST_TOKEN then minted = LAST_TOKEN else call('HSET', META, 'token', num(minted)) end
  end
  return minted
end
