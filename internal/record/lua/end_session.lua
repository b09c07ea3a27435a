-- end_session ends a session: nothing of it begins any more. Its executions that have not ended are the caller's to end,
-- or the sweeper's; then settle_session.
-- @include session
-- @include delivery
-- @arg id       of the session
-- @arg now      ms
-- @arg worker   who may end it: the worker that holds it, or '' for anybody
-- @arg reason   why
-- @arg message  in words
-- @arg expired  1: only where its time is over
-- @arg event    id of the event that tells of it
-- @number default_retention  how long a session is kept whose record doesn't say, ms
-- @answer ok DELIVERY  it has ended; what tell answered
-- @answer ended    it had ended before
-- @answer missing  there is no such session
-- @answer later    it lives on
-- @answer stale    it is another worker's

local state, held_by, retention, expires, callback, delivery = unpack(call('HMGET', session_key(id), 'state', 'worker', 'retention', 'expires', 'callback', 'delivery'))
if not state then return 'missing' end
if state == 'ended' then return 'ended' end
if worker ~= '' and held_by ~= worker then return 'stale' end
if expired == '1' and tonumber(now) <= tonumber(expires) then return 'later' end
call('HSET', session_key(id), 'state', 'ended', 'finished', now, 'reason', reason, 'message', message)
call('HDEL', held, id)
call('PUBLISH', 'gb:done', id) -- somebody may wait until it is ready
call('ZADD', sessionwork, now, id)
if held_by and worker == '' then call('PUBLISH', 'gb:turn:' .. held_by, id) end
return 'ok ' .. tell('session.ended', callback, delivery, event, now, 'news', 'session ' .. id, 'expires', string.format('%.0f', now + (tonumber(retention) or default_retention)))
