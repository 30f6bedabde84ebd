#!lua
-- A slow look at the records, page by page, whatever was lost beside them. An owner that nobody knows gets a counter, so
-- that observers see it silent; a job is put into the indexes of its state. And what workers hold is compared.
-- KEYS: pool workers heartbeats expired jobs owners queue parked planned
-- ARGV: inc, cursor or 0, jobs a page, about, then (wid, key, token)* that workers of the caller hold
-- Returns: OK, next cursor (0: that was the last page), owners that nobody knows, a letter per job held:
--          K nothing is wrong | O it has a higher token | M it has no record, though its worker is a member
--@base
--@guard
--@clock
--@records
--@paused
local head, refusal = guard()
if not head then return refusal end
local t = num(now())
local page = call('HSCAN', JOBS, argv[2], 'COUNT', argv[3])

local owned, due, parked, owners, strangers = {}, {}, {}, {}, {}
for i = 1, #page[2], 2 do
  local key, p = page[2][i], parse(page[2][i + 1])
  if p and p.owner ~= '' then
    owned[#owned + 1] = 0
    owned[#owned + 1] = p.owner .. ':' .. key
    if not owners[p.owner] then
      owners[p.owner] = true
      if call('HEXISTS', WORKERS, p.owner) == 0 and call('HEXISTS', EXPIRED, p.owner) == 0 then
        strangers[#strangers + 1] = p.owner
      end
    end
  end
  local index = p and (p.state == 'P' and parked or p.state ~= 'R' and due)
  if index then
    index[#index + 1] = p.state == 'P' and wakes_at(p) or t
    index[#index + 1] = key
  end
end

-- Counters of another type have to be put right by hand, and hold up nothing else.
local unheard = {}
for _, wid in ipairs(strangers) do
  if redis.pcall('HEXISTS', HEARTBEATS, wid) == 0 then unheard[#unheard + 1] = wid end
end

local letters = {}
for i = 4, #argv, 3 do
  local r = call('HGET', JOBS, argv[i + 1])
  local p = r and parse(r)
  if call('HEXISTS', WORKERS, argv[i]) == 0 then
    letters[#letters + 1] = 'K' -- its next renewal tells it
  elseif not r then
    letters[#letters + 1] = 'M'
  else
    letters[#letters + 1] = p and tonumber(p.token) > tonumber(argv[i + 2]) and 'O' or 'K'
  end
end

-- Existing members stay as they are. An index of another type keeps no other from being put right.
local function put(index, members)
  for i = 1, #members, 1000 do redis.pcall('ZADD', index, 'NX', unpack(members, i, math.min(i + 999, #members))) end
end
put(OWNERS, owned)
-- One with another score than 0 would hide others from who looks for them by name.
for _, index in ipairs({ OWNERS, PLANNED }) do
  for _, range in ipairs({ { '-inf', '(0' }, { '(0', '+inf' } }) do
    for _, member in ipairs(redis.pcall('ZRANGEBYSCORE', index, range[1], range[2], 'LIMIT', 0, 256)) do
      call('ZADD', index, 0, member)
    end
  end
end
put(QUEUE, due)
put(PARKED, parked)
for _, wid in ipairs(unheard) do call('HSET', HEARTBEATS, wid, t) end
return { 'OK', page[1], #strangers, table.concat(letters) }
