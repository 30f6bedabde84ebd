-- Deletes the finished entries of workers' streams. A stream that is damaged fails no other worker's jobs. The streams
-- stand behind the fixed keys; the counts of entries behind `counts`, and the entries behind `first`. `heard`: a letter
-- for each worker, of which only O is heard; nil: all are.
local function finish(fixed, counts, first, workers, heard)
  for w = 1, workers do
    local entries = tonumber(argv[counts + w])
    if entries > 0 and (not heard or heard[w] == 'O') then
      redis.pcall('XDEL', KEYS[fixed + w], unpack(argv, first + 1, first + entries))
    end
    first = first + entries
  end
end
