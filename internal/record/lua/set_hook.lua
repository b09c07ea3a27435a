-- set_hook stores a tenant's hook, if it is still what the caller has read, or is new.
-- @const max_hooks  how many hooks a tenant may have
-- @arg id      of the hook
-- @arg before  what the caller has read, or '' for a new one
-- @arg hook    as JSON
-- @answer ok     it is stored
-- @answer full   the tenant has as many as it may
-- @answer stale  it has changed meanwhile, or is gone

local hooks = t .. 'hooks'
if (call('HGET', hooks, id) or '') ~= before then return 'stale' end
if before == '' and call('HLEN', hooks) >= max_hooks then return 'full' end
call('HSET', hooks, id, hook)
return 'ok'
