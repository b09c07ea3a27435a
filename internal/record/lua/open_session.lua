-- open_session writes the record of a new session, or finds the one that its idempotency key began. It wants a task then.
-- @include session
-- @const key_life  how long an idempotency key is kept, ms
-- @arg id                of the new session
-- @arg now               ms
-- @arg due               when the sweeper looks for its task, ms
-- @arg key               hash of the idempotency key, or ''
-- @arg options           hash of what was asked for
-- @arg over_budget       1: the tenant's budget is spent
-- @number most_sessions  quota sessions
-- @number size           bytes that its record takes
-- @number most_recorded  quota bytes_recorded
-- @rest first_field      more fields and values of the record
-- @answer ID              of the session, which is id for a new one
-- @answer gone ID         the key's session is no longer kept
-- @answer conflict        the key's session was asked for with other settings
-- @answer over_budget     a new session is refused
-- @answer sessions        the quota is full
-- @answer bytes_recorded  that quota is

if call('EXISTS', session_key(id)) == 1 then return id end
local idem = t .. 'sessionidem:' .. key
if key ~= '' then
  local held = call('GET', idem)
  local held_options = held and call('HGET', session_key(held), 'options')
  if held_options then return held_options == options and held or 'conflict' end
  if held then return 'gone ' .. held end
end
if over_budget == '1' then return 'over_budget' end
if call('ZCARD', sessionwork) >= most_sessions then return 'sessions' end
if in_redis(forget_keys(now)) + size + (key ~= '' and key_cost or 0) > most_recorded then return 'bytes_recorded' end
if key ~= '' then remember(idem, id, now, key_life) end
call('HSET', session_key(id), 'state', 'queued', 'created', now, 'options', options, 'charge', size, unpack(ARGV, first_field))
charge(size)
call('ZADD', sessionwork, due, id)
call('ZADD', t .. 'sessions', 0, now .. ':' .. id)
return id
