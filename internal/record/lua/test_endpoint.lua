-- test_endpoint makes a delivery that says nothing but that it is a test. It counts as long as it is there.
-- @include memory
-- @include delivery
-- @arg id        of the delivery
-- @arg endpoint  that it goes to
-- @arg event     what it tells
-- @arg now       ms
-- @arg expires   until when it is kept, ms
-- @number most_recorded  quota bytes_recorded
-- @answer ID       what add_delivery answered
-- @answer missing  there is no such endpoint
-- @answer bytes_recorded  the quota is full

if call('HEXISTS', t .. 'endpoints', endpoint) == 0 then return 'missing' end
if in_redis(forget_keys(now)) + endpoint_delivery_cost + delivery_cost > most_recorded then return 'bytes_recorded' end
count_delivery(id, now, expires)
return add_delivery(id, now, 'endpoint', endpoint, 'event', event, 'once', 1, 'expires', expires)
