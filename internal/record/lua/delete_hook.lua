-- delete_hook forgets a tenant's hook and its deliveries.
-- @arg id  of the hook
-- @answer 1  it is gone
-- @answer 0  there is none

call('DEL', t .. 'hooklog:' .. id)
return call('HDEL', t .. 'hooks', id)
