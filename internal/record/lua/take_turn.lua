-- take_turn gives a session's worker the next execution. What it took before, if anything, has ended. Should the answer
-- get lost, it asks again and gets the same. A Redis that lost its last writes may say that what has ended runs: its worker ends it again.
-- @include session
-- @arg id          of the session
-- @arg worker      id of the worker
-- @arg now         ms
-- @arg done        the execution that the worker took last, or ''
-- @arg lost        contexts whose interpreters ended with that: NAME:GENERATION and a space each
-- @arg slot        1: the worker has a slot for an execution that it has not taken
-- @arg paused      1: the session is on the worker's disk, and goes on with the next execution
-- @answer turn, id, record, generation, contexts  that execution runs now: its fields and values, the generation of the interpreter that executes it, 0 where its context is
--                           no more, and name, generation, language and directory of each context
-- @answer unended           done runs
-- @answer waits             one waits, for a slot
-- @answer fork, id          the session is to be forked before the next: that session is to go on from where it is
-- @answer held              one waits for approval
-- @answer none              nobody waits
-- @answer missing           there is no such session
-- @answer spent             its executions have used what they may: nothing of it begins any more
-- @answer ended             it has ended, or is another worker's

-- answer gives the execution with what it needs of the session. A restart since it was taken holds for it, too.
local function answer(turn)
  local context, first = unpack(call('HMGET', job(turn), 'context', 'context_first'))
  local contexts, own = {}, 0
  local names = context_names(call('HGET', session_key(id), 'contexts'))
  table.insert(names, 1, 'main')
  for _, name in ipairs(names) do
    local generation, begun, born = generation_of(id, name)
    local language, directory = unpack(call('HMGET', session_key(id), context_field(name, 'language'), context_field(name, 'directory')))
    if name == (context or 'main') and (not first or tonumber(first) == born) then
      if not begun then call('HSET', session_key(id), context_field(name, 'generation'), generation) end
      own = generation
    end
    for _, word in ipairs({name, tostring(generation), language or '', directory or ''}) do contexts[#contexts + 1] = word end
  end
  return {'turn', turn, call('HGETALL', job(turn)), tostring(own), contexts}
end

local state, held_by, current = unpack(call('HMGET', session_key(id), 'state', 'worker', 'turn'))
if not state then return {'missing'} end
if state == 'ended' or held_by ~= worker then return {'ended'} end
local rests = paused == '1' and 'paused' or 'ready'
if state == 'queued' then
  call('HSET', session_key(id), 'state', rests, 'ready', now, 'active', now)
  call('PUBLISH', 'gb:done', id) -- somebody may wait for that
end
if current and call('HGET', job(current), 'state') == 'running' then
  if current == done then return {'unended'} end
  return answer(current)
end
if current then
  call('HDEL', session_key(id), 'turn')
  call('HSET', session_key(id), 'state', rests, 'active', now)
  for name, generation in string.gmatch(lost, '(%S+):(%d+)') do -- unless it was restarted meanwhile
    if call('HGET', session_key(id), context_field(name, 'generation')) == generation then call('HINCRBY', session_key(id), context_field(name, 'generation'), 1) end
  end
elseif state == 'ready' or state == 'paused' then
  if state ~= rests then call('HSET', session_key(id), 'state', rests) end
end
local begun, cpu_ms, most, most_cpu_ms = unpack(call('HMGET', session_key(id), 'executions', 'cpu_ms', 'budget_executions', 'budget_cpu_ms'))
if most and (tonumber(begun) or 0) >= tonumber(most) or most_cpu_ms and (tonumber(cpu_ms) or 0) >= tonumber(most_cpu_ms) then
  call('HSET', session_key(id), 'over', 'budget')
  return {'spent'}
end
while true do
  local next = call('LRANGE', turns_key(id), 0, 0)[1]
  if not next then return {'none'} end
  if call('HGET', session_key(next), 'fork_of') == id and call('HGET', session_key(next), 'state') == 'queued' then return {'fork', next} end
  local next_state = call('HGET', job(next), 'state')
  if next_state == 'held' then return {'held'} end
  local waits = next_state == 'queued' -- and not canceled meanwhile
  if waits and slot == '' then return {'waits'} end
  call('LTRIM', turns_key(id), 1, -1)
  if waits then
    local sequence = call('HINCRBY', session_key(id), 'executions', 1)
    call('HSET', job(next), 'state', 'running', 'worker', worker, 'started', now, 'attempts', 1, 'sequence', sequence)
    call('HSET', session_key(id), 'state', 'busy', 'turn', next, 'active', now)
    local turn = answer(next)
    if turn[4] ~= '0' then call('HINCRBY', session_key(id), context_field(call('HGET', job(next), 'context') or 'main', 'executions'), 1) end
    return turn
  end
end
