-- end ends a job for the worker that runs it, or one that is queued: its status and result, its delivery, its batch's count,
-- what is kept of it and for how long, and the next of its tenant's jobs are one step.
-- @include finish
-- @arg epoch   that ends
-- @arg worker  id of the worker, if one runs it
-- @arg from    the state that it is to be in, or ''
-- @answer ok, released, deliveries  the job has ended; which job is released (id, epoch, priority), and what tell answered
-- @answer stale  the job is in another epoch or state, or another worker's

if held_epoch ~= epoch or (from ~= '' and state ~= from) or (state == 'running' and held_by ~= worker) then return {'stale'} end
return finish()
