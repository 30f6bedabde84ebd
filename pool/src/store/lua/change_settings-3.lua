#!lua
-- Changes settings of a pool that runs: all of them, or none. A call that is sent again changes nothing more.
-- KEYS: m cf ch
-- ARGV: inc, then (setting, value it had or '', value)*
-- Returns: OK revision | SETTING name theirs ours (it has another value than the caller knew) | BADARG
-- Publishes: cf, those that change
--@base
--@guard
--@change
local head, refusal = guard(true)
if not head then return refusal end
-- The settings that the proofs rest on, and the shutdown flag.
local fixed = { proto = true, ttl = true, k1 = true, k2 = true, shard = true, sd = true }
if #argv < 4 or (#argv - 1) % 3 ~= 0 then return { 'BADARG' } end
local changes, wanted = {}, {}
for i = 2, #argv, 3 do
  local name, from, to = argv[i], argv[i + 1], argv[i + 2]
  if fixed[name] or wanted[name] or not is_name(name) or #to > 20 or not match(to, '^%d+$') then return { 'BADARG' } end
  if name == 'strikes' and tonumber(to) == 0 then return { 'BADARG' } end -- they divide
  wanted[name] = to
  local theirs = call('HGET', CF, name) or ''
  if theirs ~= to then
    if theirs ~= from then return { 'SETTING', name, theirs, from } end
    changes[#changes + 1] = name
    changes[#changes + 1] = to
  end
end
-- An outcome is kept for as long as its dispatch may be handed in again: else it could start twice.
local function becomes(name) return tonumber(wanted[name] or call('HGET', CF, name)) end
local od_ms, late_ms = becomes('od_ms'), becomes('late_ms')
if (wanted.od_ms or wanted.late_ms) and od_ms and late_ms and od_ms < late_ms then return { 'BADARG' } end
if #changes > 0 then return { 'OK', (mapput('cf', CF, M, 'cv', CH, argv[1], changes)) } end
return { 'OK', head[4] }
