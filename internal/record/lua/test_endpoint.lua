-- test_endpoint makes a delivery that says nothing but that it is a test.
-- @include delivery
-- @arg id        of the delivery
-- @arg endpoint  that it goes to
-- @arg event     what it tells
-- @arg now       ms
-- @arg expires   until when it is kept, ms
-- @answer ID       what add_delivery answered
-- @answer missing  there is no such endpoint

if call('HEXISTS', t .. 'endpoints', endpoint) == 0 then return 'missing' end
return add_delivery(id, now, 'endpoint', endpoint, 'event', event, 'once', 1, 'expires', expires)
