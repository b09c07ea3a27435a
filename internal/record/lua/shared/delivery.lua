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
