-- A key of the wrong type is refused before the first write. The keys of jobs and queues are read before.
call('HGET', BODIES, '')
call('HGET', EXTRAS, '')
call('HGET', GROUPS, '')
call('ZSCORE', READY, '')
call('ZSCORE', TIMERS, '')
call('ZSCORE', LEASES, '')
call('ZSCORE', TURNS, '')
call('ZSCORE', INDEX, '')
