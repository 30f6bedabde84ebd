#!lua flags=no-writes
-- A page of a plan's jobs, in the order of their keys.
-- KEYS: m pi jo
-- ARGV: inc, plan, last key of the page before or '', limit
-- Returns: OK, more 0|1, {key, record or '', ..}
--@base
--@guard
local head, refusal = guard(true)
if not head then return refusal end
local prefix, limit = argv[2] .. '|', tonumber(argv[4])
local from = (argv[3] == '' and '[' or '(') .. prefix .. argv[3]
local members = call('ZRANGEBYLEX', PI, from, '(' .. argv[2] .. '}', 'LIMIT', 0, limit)
local keys, jobs = {}, {}
for at, member in ipairs(members) do keys[at] = sub(member, #prefix + 1) end
local records = #keys > 0 and call('HMGET', JO, unpack(keys)) or {}
for at, key in ipairs(keys) do
  jobs[#jobs + 1] = key
  jobs[#jobs + 1] = records[at] or ''
end
return { 'OK', #members == limit and 1 or 0, jobs }
