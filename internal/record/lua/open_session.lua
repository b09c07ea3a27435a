-- open_session writes the record of a new session, or finds the one that its idempotency key began. It wants a task then.
-- @include session
-- @const key_life  how long an idempotency key is kept, ms
-- @arg id                of the new session
-- @arg now               ms
-- @arg due               when the sweeper looks for its task, ms
-- @arg key               hash of the idempotency key, or ''
-- @arg options           hash of what was asked for
-- @arg fork_of           the session that it is to be forked from, in the line of whose executions it waits, or ''
-- @number most_waiting   how many may wait there
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
-- @answer ended           the session that it is to be forked from has, or is about to, or there is none
-- @answer busy            as many wait for that as may
-- @answer unforkable      its worker can't fork, or nobody holds it yet

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
if fork_of ~= '' then
  local state, over, forks = unpack(call('HMGET', session_key(fork_of), 'state', 'over', 'forks'))
  if not state or state == 'ended' or over then return 'ended' end
  if forks ~= '1' then return 'unforkable' end
  if line_is_full(fork_of, most_waiting) then return 'busy' end
end
if key ~= '' then remember(idem, id, now, key_life) end
call('HSET', session_key(id), 'state', 'queued', 'created', now, 'options', options, 'charge', size, unpack(ARGV, first_field))
charge(size)
call('ZADD', sessionwork, due, id)
call('ZADD', t .. 'sessions', 0, now .. ':' .. id)
if fork_of ~= '' then
  call('HSET', session_key(id), 'fork_of', fork_of)
  call('RPUSH', turns_key(fork_of), id)
  call('PUBLISH', 'gb:turn:' .. call('HGET', session_key(fork_of), 'worker'), fork_of)
end
return id
