-- set_schedule stores a tenant's schedule, if it is still what the caller has read, or is new; says when to look at it next; and
-- writes down what became of fires. Claiming a fire is one step, and noting what it started another.
-- @include delivery
-- @const max_schedules  how many schedules a tenant may have
-- @const max_fires      how many fires a schedule remembers to show, about
-- @arg name      of the schedule
-- @arg before    what the caller has read, or '' for a new one
-- @arg schedule  as JSON
-- @arg due       when to look at it, ms, or +inf
-- @arg now       ms
-- @arg expires   when it need not be told any more what became of fires, ms
-- @rest first_fire  what became of fires: each as JSON, and the id of the event that tells of it, or ''
-- @answer ok, deliveries  it is stored; what tell answered, with a comma between
-- @answer full   the tenant has as many as it may
-- @answer stale  it has changed meanwhile, or is gone

local schedules = t .. 'schedules'
if (call('HGET', schedules, name) or '') ~= before then return {'stale'} end
if before == '' and call('HLEN', schedules) >= max_schedules then return {'full'} end
if schedule ~= before then call('HSET', schedules, name, schedule) end
call('ZADD', t .. 'clock', due, name)
local made = {}
for i = first_fire, #ARGV, 2 do
  local entry = call('XADD', t .. 'fires:' .. name, 'MAXLEN', '~', max_fires, '*', 'fire', ARGV[i])
  if ARGV[i + 1] ~= '' then
    local told = tell('schedule.skipped', nil, nil, ARGV[i + 1], now, 'news', 'schedule ' .. name .. ' ' .. entry, 'expires', expires)
    if told ~= '' then made[#made + 1] = told end
  end
end
return {'ok', table.concat(made, ',')}
