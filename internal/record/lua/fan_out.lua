-- fan_out makes of an event a delivery to each endpoint that wants it, and forgets the event. One whose endpoint has no room for it
-- waits there from the start: it costs no task, so that a dead endpoint costs a healthy one next to nothing. What they take of
-- Redis counts until the job, batch or run is forgotten. Those of news, which come with no record that was within the quota, count
-- each as long as it is there, and are not made beyond the quota: lists have what they tell. Those of budgets are made beyond it: they are few.
-- @include memory
-- @include delivery
-- @include lane
-- @arg id   of the event
-- @arg now  ms
-- @number most  how many attempts may be made at once at one endpoint
-- @arg again    when the sweeper looks for a delivery that waits, ms
-- @arg expires_by  until when one is kept whose event doesn't say, ms
-- @number most_recorded  quota bytes_recorded, of news
-- @rest first  id and endpoint of each delivery
-- @answer made, released, refused  what add_delivery answered of those that don't wait, with a comma between; id, attempt, waits, backlog and when of each delivery that is released; how many are not made, as the quota is full

local event = t .. 'delivery:' .. id
local state, job, batch, run, budget, news, name, created, expires = unpack(call('HMGET', event, 'state', 'job', 'batch', 'run', 'budget', 'news', 'event', 'created', 'expires'))
local kind = job and 'job' or batch and 'batch' or budget and 'budget' or news and 'news' or 'run'
local subject = job or batch or budget or news or run or ''
if state ~= 'pending' then return {'', {}, 0} end
local stored, kept_since, charged = string.match(call('HGET', t .. 'kept', subject) or '', '^(%d+) (%d+) (%d+)$')
local made, released, bytes, refused, left = {}, {}, 0, 0, math.huge
if not charged then
  local lasts = forget_keys(now)
  if news then left = most_recorded - in_redis(lasts) + delivery_cost end -- the event goes
end
for i = first, #ARGV, 2 do
  local there = call('EXISTS', t .. 'delivery:' .. ARGV[i]) == 1
  if not there and left < endpoint_delivery_cost + delivery_cost then
    refused = refused + 1
  elseif not there then
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
    left = left - endpoint_delivery_cost - delivery_cost
    if not charged then count_delivery(ARGV[i], now, expires or expires_by) end
  end
end
if charged and bytes > 0 then
  call('HSET', t .. 'kept', subject, stored .. ' ' .. kept_since .. ' ' .. string.format('%.0f', charged + bytes))
  charge(bytes)
end
call('DEL', event)
call('ZREM', t .. 'outbox', id)
return {table.concat(made, ','), released, refused}
