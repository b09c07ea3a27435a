-- end ends a job for the worker that runs it, or one that is queued: its status and result, its delivery, its batch's count,
-- what is kept of it and for how long, and the next of its tenant's jobs are one step.
-- @include finish
-- @arg epoch   that ends
-- @arg worker  id of the worker, if one runs it
-- @answer ok, released, deliveries  the job has ended; which job is released (id, epoch, priority), and what tell answered
-- @answer stale  the job is in another epoch, or another worker's

if held_epoch ~= epoch or (state == 'running' and held_by ~= worker) then return {'stale'} end
return finish()
