-- cancel_run begins to cancel a run: no job of it is made any more. Its jobs that have not ended are canceled as it is advanced.
-- @include run
-- @arg id      of the run
-- @arg reason  canceled, deadline_exceeded, tenant_stopped or pipeline_refused
-- @answer ok       it ends once its jobs have
-- @answer ended    it has ended before
-- @answer missing  there is no such run

local state = call('HGET', run_key(id), 'state')
if not state then return 'missing' end
if state ~= 'running' then return 'ended' end
if call('HSETNX', run_key(id), 'cancel', reason) == 1 then
  call('HSET', run_items(id), 'over', 1)
  items_changed(id)
end
look_at(id)
return 'ok'
