-- watch notes that somebody watches a job, and wakes a worker that runs the job and doesn't publish events yet.
-- @include stream
-- @arg id       of the job
-- @arg watched  until when it counts as watched, ms
-- @answer status, epoch, attempts  what the job is now; nothing where there is no such job

local state, epoch, attempts = unpack(call('HMGET', t .. 'job:' .. id, 'state', 'epoch', 'attempts'))
if not state then return {} end
if state == 'held' or state == 'queued' or state == 'running' then
  call('HSET', t .. 'job:' .. id, 'watched', watched)
  local last = state == 'running' and stream_end(t .. 'events:' .. id)
  local publishes = last and last.epoch == epoch and last.seq > 0
  if state == 'running' and not publishes then call('PUBLISH', 'gb:cancel', id) end
end
return {state, epoch, attempts}
