-- Deliveries: webhook messages.
-- @const deliveries_in_line  how many deliveries of a tenant may be pending before the next is one of the backlog

-- add_delivery makes one that is due now, with more fields and values. It answers the id, with " backlog" behind it for one
-- of the tenant's backlog.
local function add_delivery(id, now, ...)
  local outbox = t .. 'outbox'
  local backlog = call('ZCARD', outbox) >= deliveries_in_line
  call('HSET', t .. 'delivery:' .. id, 'state', 'pending', 'attempt', 1, 'created', now, 'due', now, 'backlog', backlog and 1 or 0, ...)
  call('ZADD', outbox, now, id)
  return backlog and id .. ' backlog' or id
end

-- tell makes the deliveries of an event: one to the URL that its job or batch names, if it does, and one without a URL where an
-- endpoint of the tenant wants the event: the deliverer makes of that a delivery to each of those (fan_out). It answers what
-- add_delivery does, with a comma between.
local function tell(event, url, delivery, message, now, ...)
  local made = {}
  if url and url ~= '' then made[1] = add_delivery(delivery, now, 'event', event, 'url', url, ...) end
  if message and call('SISMEMBER', t .. 'wants', event) == 1 then made[#made + 1] = add_delivery(message, now, 'event', event, ...) end
  return table.concat(made, ',')
end
