#!lua
-- A standby takes a slot of its own: the lowest that is free.
-- KEYS: m w ch
-- ARGV: inc, wid
-- Returns: OK entry first (1: the pool's only live slot) | FENCED
-- Publishes: w, one entry and, when the ring grows, its size
--@base
--@guard
--@ring
--@change
local head, refusal = guard(true)
if not head then return refusal end
local entry = call('HGET', W, argv[2])
if not entry then return { 'FENCED' } end
local used, live = ring()
if sub(entry, 1, 1) ~= 'P' then return { 'OK', entry, is_only(entry, live) } end
local slot = 0
while used[slot] do slot = slot + 1 end
entry = 'U|' .. slot .. sub(entry, 4)
local changes = { argv[2], entry }
grow(changes, slot)
mapput('w', W, M, 'mv', CH, argv[1], changes)
return { 'OK', entry, live == 0 and '1' or '0' }
