-- set_endpoint makes, changes or deletes an endpoint, if it still is what the caller has read, and notes which events the tenant's
-- endpoints want: a script that ends a job looks at nothing else.
-- @const max_endpoints  how many endpoints a tenant may have
-- @arg id      of the endpoint
-- @arg before  what the caller has read, JSON, or '' for a new one
-- @arg after   what is to be, JSON, or '' for none
-- @const flight_life  how long a delivery that is released may take until its attempt begins, ms
-- @arg enable  1: forget that deliveries to it have failed, and take those that wait for that to be over
-- @number now  ms
-- @answer ok     it is done
-- @answer full   the tenant has as many as it may
-- @answer stale  it has changed meanwhile

local endpoints, wants, lane = t .. 'endpoints', t .. 'wants', t .. 'lane:' .. id
if (call('HGET', endpoints, id) or '') ~= before then return 'stale' end
if before == '' and call('HLEN', endpoints) >= max_endpoints then return 'full' end
if after == '' then
  call('HDEL', endpoints, id)
  call('HDEL', t .. 'webhook', id .. ':generation', id .. ':previous_until')
  call('DEL', lane, lane .. ':flight', lane .. ':waiting', t .. 'attempts:' .. id, t .. 'failed:' .. id)
else
  call('HSET', endpoints, id, after)
  if enable == '1' then
    call('HDEL', lane, 'failures', 'failed', 'failing', 'pause', 'disabled', 'reason')
    -- What was released for the end of the pause is due now, in a task of its own: that of the pause is stale.
    for _, delivery in ipairs(call('ZRANGEBYSCORE', lane .. ':flight', string.format('(%.0f', now + flight_life), '+inf')) do
      local key = t .. 'delivery:' .. delivery
      call('ZREM', lane .. ':flight', delivery)
      if call('HGET', key, 'state') == 'pending' then
        call('HSET', key, 'due', now)
        call('HINCRBY', key, 'waits', 1)
        call('ZADD', t .. 'outbox', now, delivery)
      end
    end
  end
end
call('DEL', wants)
local all = call('HGETALL', endpoints)
for i = 2, #all, 2 do
  for _, event in ipairs(cjson.decode(all[i]).events) do call('SADD', wants, event) end
end
return 'ok'
