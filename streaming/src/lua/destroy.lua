#!lua flags=allow-oom
-- Deletes a stream with its groups, and what is known of its publishers' ids.
-- KEYS: stream, ids, due
-- Returns: 1 | 0 when there was no stream
redis.call('UNLINK', KEYS[2], KEYS[3])
return redis.call('UNLINK', KEYS[1])
