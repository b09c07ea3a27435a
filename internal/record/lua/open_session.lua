-- open_session writes the record of a new session. It wants a task then.
-- @include session
-- @arg id                of the new session
-- @arg now               ms
-- @arg due               when the sweeper looks for its task, ms
-- @number most_sessions  quota sessions
-- @number size           bytes that its record takes
-- @number most_recorded  quota bytes_recorded
-- @rest first_field      more fields and values of the record
-- @answer ok              it is there
-- @answer sessions        the quota is full
-- @answer bytes_recorded  that quota is

if call('EXISTS', session_key(id)) == 1 then return 'ok' end
if call('ZCARD', sessionwork) >= most_sessions then return 'sessions' end
if in_redis(forget_keys(now)) + size > most_recorded then return 'bytes_recorded' end
call('HSET', session_key(id), 'state', 'queued', 'created', now, 'charge', size, unpack(ARGV, first_field))
charge(size)
call('ZADD', sessionwork, due, id)
call('ZADD', t .. 'sessions', 0, now .. ':' .. id)
return 'ok'
