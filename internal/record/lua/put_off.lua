-- put_off has a delivery come again later that met a fault of ours. It gives its place in its lane to the next meanwhile, and spends no
-- attempt. What an endpoint that is disabled was tried with does not count as tried.
-- @include lane
-- @arg id        of the delivery
-- @arg attempt   its number
-- @arg waits     of its task
-- @arg now       ms
-- @arg due       when it comes again, ms
-- @arg endpoint  that it goes to, or ''
-- @arg url       of a callback, or ''
-- @number most      how many attempts may be made at once at one endpoint
-- @number patience  how long after it was made or asked for a delivery may wait, or a disabled endpoint's try after it was due, ms
-- @answer ok, released  it comes again; id, attempt, waits, backlog and when of each delivery that is released, and of this one
-- @answer overdue       it has waited for too long, and keeps its place
-- @answer stale         the attempt was recorded, or is another task's

local delivery = t .. 'delivery:' .. id
local state, held_attempt, held_waits, held_due, backlog, created, asked, faulty = unpack(call('HMGET', delivery, 'state', 'attempt', 'waits', 'due', 'backlog', 'created', 'asked', 'faulty'))
if state ~= 'pending' or held_attempt ~= attempt or (held_waits or '0') ~= waits then return {'stale'} end
local lane = (endpoint ~= '' or url ~= '') and lane_of(endpoint, url)
local disabled, probe
if lane then disabled, probe = unpack(call('HMGET', lane, 'disabled', 'probe')) end
local since = asked or created
if disabled and probe == id then since = faulty or held_due end -- before that it waited for its endpoint, as it was to
if now - (tonumber(since) or 0) > patience then return {'overdue'} end
local again = call('HINCRBY', delivery, 'waits', 1)
call('HSETNX', delivery, 'faulty', held_due or now)
call('HSET', delivery, 'due', due)
call('ZADD', outbox, due, id)
local released = {}
if lane then
  if disabled and probe == id then call('HSET', lane, 'pause', due) end -- others may have been under way as it was disabled
  released = leave_lane(lane, id, now, most)
end
released[#released + 1] = {id, attempt, again, backlog or '0', due}
return {'ok', released}
