-- fan_out makes of an event a delivery to each endpoint that wants it, and forgets the event. What they take of Redis counts
-- until the job, batch or run is forgotten.
-- @include memory
-- @include delivery
-- @const endpoint_delivery_cost  what a delivery to an endpoint takes, bytes
-- @arg id   of the event
-- @arg now  ms
-- @rest first  id and endpoint of each delivery
-- @answer made  what add_delivery answered, with a comma between

local event = t .. 'delivery:' .. id
local state, job, batch, run, budget, news, name, created, expires = unpack(call('HMGET', event, 'state', 'job', 'batch', 'run', 'budget', 'news', 'event', 'created', 'expires'))
local kind = job and 'job' or batch and 'batch' or budget and 'budget' or news and 'news' or 'run'
local subject = job or batch or budget or news or run or ''
if state ~= 'pending' then return '' end
local made, bytes = {}, 0
for i = first, #ARGV, 2 do
  if call('EXISTS', t .. 'delivery:' .. ARGV[i]) == 0 then
    made[#made + 1] = add_delivery(ARGV[i], now, 'endpoint', ARGV[i + 1], 'event', name, kind, subject, 'created', created or now)
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
return table.concat(made, ',')
