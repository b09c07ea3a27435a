-- publish appends events of a job that runs to its stream. It leaves out those that are there, should an answer have got
-- lost, and drops the oldest of a stream that has too much.
-- @include memory
-- @include lending
-- @include stream
-- @const max_event_bytes  bytes of events that a stream has at most
-- @const event_cost       bytes that an event counts besides its data
-- @const event_patience   how long a stream without a new event is kept, ms
-- @arg id            of the job
-- @arg epoch         of the events
-- @arg worker        id of the worker
-- @number first      seq of the first event
-- @arg now           ms
-- @arg lend_most     bytes that the tenant may have lent
-- @rest first_event  type, offset and data of each
-- @answer ok     they are there
-- @answer stale  the job doesn't run, or in another epoch or for another worker

local events = t .. 'events:' .. id
local state, held_epoch, held_by = unpack(call('HMGET', t .. 'job:' .. id, 'state', 'epoch', 'worker'))
if state ~= 'running' or held_epoch ~= epoch or held_by ~= worker then return 'stale' end
local last = stream_end(events)
local seq, total = 0, 0
if last then
  total = last.total
  if last.epoch == epoch then seq = last.seq end
end
local next = first
for i = first_event, #ARGV, 3 do
  local kind, offset, data = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if next > seq then
    total = total + event_cost + #data
    append_event(events, kind, epoch, next, offset, total, data)
  end
  next = next + 1
end
local kept = 0
while true do
  local oldest = call('XRANGE', events, '-', '+', 'COUNT', 1)[1]
  if not oldest then break end
  local after = total - oldest[2][10] -- bytes of all that are newer
  kept = after + event_cost + #oldest[2][12]
  if after < max_event_bytes then break end
  call('XDEL', events, oldest[1])
end
call('PEXPIRE', events, event_patience)
lend('events:' .. id, math.floor(kept * 1.3), now + event_patience, now, lend_most) -- 1.3: measured, docs/adr/0009-watching.md
call('PUBLISH', 'gb:events:' .. id, '')
return 'ok'
