-- backfill makes deliveries to an endpoint of what has ended already, as fan_out would have made them had the endpoint been there.
-- One that is there stays as it is. They wait in the endpoint's lane, which releases what there is room for.
-- @include memory
-- @include delivery
-- @include lane
-- @arg endpoint  that is told
-- @arg now       ms
-- @arg again     when the sweeper looks for a delivery that waits, ms
-- @number most_recorded  quota bytes_recorded
-- @rest first    of each delivery its id, the event, what that is about (job, batch or run), the id of that, when it ended, and when the delivery is forgotten or ''
-- @answer words, released  of each made, bytes_recorded (the quota is full), forgotten (what it is about is no longer kept) or the state of the one that is there; id, attempt, waits, backlog and when of each that is released
-- @answer missing, released  there is no such endpoint

if call('HEXISTS', t .. 'endpoints', endpoint) == 0 then return {{'missing'}, {}} end
local words, lane = {}, lane_of(endpoint)
for i = first, #ARGV, 6 do
  local id, event, kind, subject, ended, expires = unpack(ARGV, i, i + 5)
  local key = t .. 'delivery:' .. id
  local word = call('HGET', key, 'state')
  local stored, kept_since, charged = string.match(call('HGET', t .. 'kept', subject) or '', '^(%d+) (%d+) (%d+)$')
  if not word and not charged then
    word = 'forgotten'
  elseif not word and in_redis() + endpoint_delivery_cost + delivery_cost > most_recorded then
    word = 'bytes_recorded'
  elseif not word then
    word = 'made'
    add_delivery(id, now, 'endpoint', endpoint, 'event', event, kind, subject, 'created', ended, 'asked', now)
    if expires ~= '' then call('HSET', key, 'expires', expires) end
    line_up_delivery(lane, id, now, again)
    call('HSET', t .. 'kept', subject, stored .. ' ' .. kept_since .. ' ' .. string.format('%.0f', charged + endpoint_delivery_cost))
    charge(endpoint_delivery_cost)
  end
  words[#words + 1] = word
end
return {words, release_lane(lane, now)}
