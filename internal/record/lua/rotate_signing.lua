-- rotate_signing makes the next generation of a webhook secret the current one: of the tenant's, or of an endpoint's.
-- @arg of    '' for the tenant's, or the endpoint's id and a colon
-- @arg now   ms
-- @arg keep  how long the secret before it also signs, ms; 0: not at all
-- @answer ok, generation, until   the new generation, and until when the one before signs, ms
-- @answer two, generation, until  nothing has changed: two generations sign

local generation, till = unpack(call('HMGET', t .. 'webhook', of .. 'generation', of .. 'previous_until'))
generation, till = generation or '1', till or '0'
if keep ~= '0' and tonumber(till) > tonumber(now) then return {'two', generation, till} end
till = keep == '0' and '0' or string.format('%.0f', now + keep)
generation = string.format('%.0f', generation + 1)
call('HSET', t .. 'webhook', of .. 'generation', generation, of .. 'previous_until', till)
return {'ok', generation, till}
