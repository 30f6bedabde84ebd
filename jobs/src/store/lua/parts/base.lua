--@words
--@clock
-- Every step names the incarnation that it is for, argv[1].
local meta = call('HMGET', META, 'incarnation', 'token', 'hold', 'grace', 'armed', 'duty')
if not meta[1] then return { 'NOSET' } end
if meta[1] ~= argv[1] then return { 'STALEINC', meta[1] } end
local t = now()

-- One number a call, rising for as long as the set lives: the token of what is taken, the order of what is added.
local minted
local function mint()
  if not minted then
    minted = max((tonumber(meta[2]) or 0) + 1, floor_at(t))
    call('HSET', META, 'token', num(minted))
  end
  return minted
end
