-- fork_session makes the worker of a session that of another, which is forked from it: that one is where the first is now, between two executions. The same worker may ask again.
-- @include session
-- @const context_cost  bytes that a context takes
-- @arg id      of the new session
-- @arg of      the one that it is forked from
-- @arg worker  id of the worker
-- @answer ok, record  it is the worker's; fields and values of the record
-- @answer missing     there is no such session that is to be forked from that one
-- @answer ended       it has ended
-- @answer stale       either is another worker's

local state, held_by, fork_of = unpack(call('HMGET', session_key(id), 'state', 'worker', 'fork_of'))
if fork_of ~= of then return {'missing'} end
if call('LRANGE', turns_key(of), 0, 0)[1] == id then call('LTRIM', turns_key(of), 1, -1) end
if state == 'ended' then return {'ended'} end
if held_by and held_by ~= worker then return {'stale'} end
if not held_by then
  local of_state, of_worker, executions = unpack(call('HMGET', session_key(of), 'state', 'worker', 'executions'))
  if of_state == 'ended' or of_worker ~= worker then return {'stale'} end
  local shared = {generation = true, contexts = true, forgotten = true, head = true, attested = true, executions = true}
  local fields = call('HGETALL', session_key(of))
  for i = 1, #fields, 2 do
    if shared[fields[i]] or string.sub(fields[i], 1, 8) == 'context:' then call('HSET', session_key(id), fields[i], fields[i + 1]) end
  end
  local contexts = context_cost * #context_names(call('HGET', session_key(id), 'contexts'))
  if contexts > 0 then
    call('HINCRBY', session_key(id), 'charge', contexts)
    charge(contexts)
  end
  if call('HEXISTS', session_key(id), 'budget_executions') == 1 then call('HINCRBY', session_key(id), 'budget_executions', executions or 0) end
  call('HSET', session_key(id), 'worker', worker, 'forks', '1', 'forked_at', executions or 0)
  call('HSET', held, id, '1 ' .. worker)
end
return {'ok', call('HGETALL', session_key(id))}
