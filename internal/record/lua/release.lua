-- release moves jobs whose time has come to the backlog, and jobs of the backlog into the window, 500 of each at most.
-- @include queue
-- @arg now     ms
-- @arg due     when the sweeper looks for their tasks, ms
-- @arg window  how many jobs of the tenant may be released or running
-- @answer released  id, epoch and priority of each

for _, id in ipairs(call('ZRANGE', later, '-inf', now, 'BYSCORE', 'LIMIT', 0, 500)) do
  call('ZREM', later, id)
  local state, priority = unpack(call('HMGET', job(id), 'state', 'priority'))
  if state == 'queued' then line_up({[(priority == 'high' or priority == 'low') and priority or 'normal'] = {1, id}}, 1) end
end
return release(window, now, due, 500)
