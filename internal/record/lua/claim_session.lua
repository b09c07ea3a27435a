-- claim_session makes a worker the one that holds a session, for good. The same worker may ask again.
-- @include session
-- @arg id      of the session
-- @arg worker  id of the worker
-- @arg forks   1: it can fork the session
-- @answer ok, record  it is the worker's; fields and values of the record
-- @answer missing     there is no such session
-- @answer ended       it has ended
-- @answer taken       another worker has it

local state, held_by = unpack(call('HMGET', session_key(id), 'state', 'worker'))
if not state then return {'missing'} end
if state == 'ended' then return {'ended'} end
if held_by and held_by ~= worker then return {'taken'} end
call('HSET', session_key(id), 'worker', worker, 'forks', forks)
call('HSET', held, id, '1 ' .. worker)
return {'ok', call('HGETALL', session_key(id))}
