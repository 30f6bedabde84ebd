#!lua flags=allow-oom
-- Cordons a node, or lifts that: the ring gives no job to a worker of a cordoned node. A call that finds it so changes
-- nothing.
-- KEYS: pool workers changes
-- ARGV: inc, the members' revision that the caller has seen, node, 1 cordon | 0 lift
-- Returns: OK | STALERING revision | BADARG
-- Publishes: workers, the node's field and, at first, the ring's size
--@base
--@guard
--@ring
--@change
local head, refusal = guard(true)
if not head then return refusal end
local on = argv[4] == '1'
if not is_name(argv[3]) then return { 'BADARG' } end
local field = 'cordon:' .. argv[3]
if (call('HEXISTS', WORKERS, field) == 1) == on then return { 'OK' } end
if head[3] ~= argv[2] then return { 'STALERING', head[3] } end
local changes = { field, on and '1' }
grow(changes, 0)
mapput('workers', WORKERS, POOL, 'workers_revision', CHANGES, argv[1], changes)
return { 'OK' }
