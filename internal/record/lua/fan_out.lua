-- fan_out makes of an event a delivery to each endpoint that wants it, and forgets the event. One whose endpoint has no room for it
-- waits there from the start: it costs no task, so that a dead endpoint costs a healthy one next to nothing. What they take of
-- Redis counts until the job, batch or run is forgotten.
-- @include memory
-- @include delivery
-- @include lane
-- @const endpoint_delivery_cost  what a delivery to an endpoint takes, bytes
-- @arg id   of the event
-- @arg now  ms
-- @number most  how many attempts may be made at once at one endpoint
-- @arg again    when the sweeper looks for a delivery that waits, ms
-- @rest first  id and endpoint of each delivery
-- @answer made, released  what add_delivery answered of those that don't wait, with a comma between; id, attempt, waits, backlog and when of each delivery that is released

local event = t .. 'delivery:' .. id
local state, job, batch, run, budget, news, name, created, expires = unpack(call('HMGET', event, 'state', 'job', 'batch', 'run', 'budget', 'news', 'event', 'created', 'expires'))
local kind = job and 'job' or batch and 'batch' or budget and 'budget' or news and 'news' or 'run'
local subject = job or batch or budget or news or run or ''
if state ~= 'pending' then return {'', {}} end
local made, released, bytes = {}, {}, 0
for i = first, #ARGV, 2 do
  if call('EXISTS', t .. 'delivery:' .. ARGV[i]) == 0 then
    local task = add_delivery(ARGV[i], now, 'endpoint', ARGV[i + 1], 'event', name, kind, subject, 'created', created or now)
    local lane = lane_of(ARGV[i + 1])
    if call('HEXISTS', lane, 'disabled') == 1 or has_room(lane, now, most) then
      made[#made + 1] = task
    else
      line_up_delivery(lane, ARGV[i], now, again)
      for _, r in ipairs(release_lane(lane, now, most)) do released[#released + 1] = r end
    end
    if expires then call('HSET', t .. 'delivery:' .. ARGV[i], 'expires', expires) end
    bytes = bytes + endpoint_delivery_cost
  end
end
local stored, kept_since, charged = string.match(call('HGET', t .. 'kept', subject) or '', '^(%d+) (%d+) (%d+)$')
if charged and bytes > 0 then
  call('HSET', t .. 'kept', subject, stored .. ' ' .. kept_since .. ' ' .. string.format('%.0f', charged + bytes))
  charge(bytes)
end
call('DEL', event)
call('ZREM', t .. 'outbox', id)
return {table.concat(made, ','), released}
