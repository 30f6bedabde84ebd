-- Grants: the worker of such a job may start the job on reading its news. The news say what `begin` would answer. An entry for
-- each worker: `g token i incarnation`, then for each job `key record` and `letter payload`, and behind C, D, c and d the header
-- and the bytes of its checkpoint. The letters are those of `begin`, small ones where nobody waits for the start.
local GRANT_BYTES = 65536 -- of payloads and checkpoints in an entry
local grants = {}

-- The entry of a worker, and what its jobs' records and names among the owners begin with.
local function begin_grant(x, wid, token)
  local grant = { 'g', token, 'i', argv[1], n = 4, bytes = 0, front = '1|R|' .. wid .. '|' .. token .. '|1|', member = wid .. ':' }
  grants[x] = grant
  return grant
end

-- A grant says that its record is there. News that cannot be written are found missing by the owner, and by whoever waits.
local function send_grant(stream, grant)
  redis.pcall('XADD', stream, '*', unpack(grant, 1, grant.n))
end
