-- set_endpoint makes, changes or deletes an endpoint, if it still is what the caller has read, and notes which events the tenant's
-- endpoints want: a script that ends a job looks at nothing else.
-- @include lane
-- @const max_endpoints  how many endpoints a tenant may have
-- @arg id      of the endpoint
-- @arg before  what the caller has read, JSON, or '' for a new one
-- @arg after   what is to be, JSON, or '' for none
-- @arg enable  1: forget that deliveries to it have failed, and take those that wait for that to be over
-- @number now  ms
-- @arg again    when the sweeper looks for a delivery that waits, ms
-- @answer ok, released  it is done; id, attempt, waits, backlog and when of each delivery that is released
-- @answer full   the tenant has as many as it may
-- @answer stale  it has changed meanwhile

local endpoints, wants, lane, released = t .. 'endpoints', t .. 'wants', lane_of(id), {}
if (call('HGET', endpoints, id) or '') ~= before then return {'stale'} end
if before == '' and call('HLEN', endpoints) >= max_endpoints then return {'full'} end
if after == '' then
  call('HDEL', endpoints, id)
  call('HDEL', t .. 'webhook', id .. ':generation', id .. ':previous_until')
  call('DEL', lane, lane .. ':flight', lane .. ':waiting', t .. 'attempts:' .. id, t .. 'failed:' .. id)
else
  call('HSET', endpoints, id, after)
  if enable == '1' then
    local held = call('HGET', lane, 'held') or ''
    call('HDEL', lane, 'failures', 'failed', 'failing', 'pause', 'disabled', 'reason', 'probe', 'held')
    -- What was put off to the end of the pause is the first to be released now, for a task of its own: that of the pause is stale.
    -- How long it may wait begins anew: until now it waited for this.
    local function go(delivery)
      call('ZREM', lane .. ':flight', delivery)
      if call('HGET', t .. 'delivery:' .. delivery, 'state') ~= 'pending' then return end
      call('HSET', t .. 'delivery:' .. delivery, 'asked', now)
      line_up_delivery(lane, delivery, 0, again)
    end
    for _, delivery in ipairs(call('ZRANGEBYSCORE', lane .. ':flight', string.format('(%.0f', now + flight_life), '+inf')) do go(delivery) end
    for delivery in string.gmatch(held, '%S+') do
      if not call('ZSCORE', lane .. ':flight', delivery) then go(delivery) end
    end
    released = release_lane(lane, now)
  end
end
call('DEL', wants)
local all = call('HGETALL', endpoints)
for i = 2, #all, 2 do
  for _, event in ipairs(cjson.decode(all[i]).events) do call('SADD', wants, event) end
end
return {'ok', released}
