-- cancel ends a job that is queued, as end does, and asks the worker of one that runs to stop.
-- @include finish
-- @arg reason  code of why, or 1
-- @answer ok, released, deliveries  the job has ended; which job is released (id, epoch, priority), and what tell answered
-- @answer running  it is asked to stop

if state == 'running' then
  call('HSET', job(id), 'cancel', reason)
  call('PUBLISH', 'gb:cancel', id)
  return {'running'}
end
return finish()
