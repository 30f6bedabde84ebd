#!lua flags=no-writes
-- A page of the parked jobs, in no order. One that is parked all the while is in some page; it may be in two.
-- KEYS: jobs parked errors
-- ARGV: cursor of the page, 0 for the first; about how many
-- Returns: OK, cursor of the next page or 0, {key, parked at, error, record or '', ..}
--@base
local found = call('ZSCAN', PARKED, argv[1], 'COUNT', argv[2])
local members, keys, jobs = found[2], {}, {}
for i = 1, #members, 2 do keys[#keys + 1] = members[i] end
for from = 1, #keys, 1024 do
  local upto = math.min(from + 1023, #keys)
  local records = call('HMGET', JOBS, unpack(keys, from, upto))
  local errors = redis.pcall('HMGET', ERRORS, unpack(keys, from, upto)) -- only shown: a damaged key hides no job
  for i = from, upto do
    local at, j = i - from + 1, #jobs
    jobs[j + 1], jobs[j + 2], jobs[j + 3], jobs[j + 4] = keys[i], members[2 * i], errors[at] or '', records[at] or ''
  end
end
return { 'OK', found[1], jobs }
