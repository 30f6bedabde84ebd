#!lua
-- Creates the consumer group again if it is missing, from the beginning: handled entries are gone.
-- KEYS: m ps
-- ARGV: inc
-- Returns: OK
--@base
--@guard
local head, refusal = guard(true)
if not head then return refusal end
pcall(call, 'XGROUP', 'CREATE', PS, 'r', '0', 'MKSTREAM')
return { 'OK' }
