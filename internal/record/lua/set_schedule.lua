-- set_schedule stores a tenant's schedule, if it is still what the caller has read, or is new; says when to look at it next; and
-- writes down what became of fires. Claiming a fire is one step, and noting what it started another.
-- @const max_schedules  how many schedules a tenant may have
-- @const max_fires      how many fires a schedule remembers to show, about
-- @arg name      of the schedule
-- @arg before    what the caller has read, or '' for a new one
-- @arg schedule  as JSON
-- @arg due       when to look at it, ms, or +inf
-- @rest first_fire  what became of fires, each as JSON
-- @answer ok     it is stored
-- @answer full   the tenant has as many as it may
-- @answer stale  it has changed meanwhile, or is gone

local schedules = t .. 'schedules'
if (call('HGET', schedules, name) or '') ~= before then return 'stale' end
if before == '' and call('HLEN', schedules) >= max_schedules then return 'full' end
if schedule ~= before then call('HSET', schedules, name, schedule) end
call('ZADD', t .. 'clock', due, name)
for i = first_fire, #ARGV do
  call('XADD', t .. 'fires:' .. name, 'MAXLEN', '~', max_fires, '*', 'fire', ARGV[i])
end
return 'ok'
