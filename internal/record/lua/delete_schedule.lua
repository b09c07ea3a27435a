-- delete_schedule forgets a tenant's schedule and its fires.
-- @arg name  of the schedule
-- @answer 1  it is gone
-- @answer 0  there is none

call('ZREM', t .. 'clock', name)
call('DEL', t .. 'fires:' .. name)
return call('HDEL', t .. 'schedules', name)
