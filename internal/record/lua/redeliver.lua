-- redeliver makes deliveries due that are done, under the message ids that they had, and one that is to be tried later due now. The
-- schedule begins anew, and so does how long they may wait. They wait in their lanes, which release what there is room for.
-- @include lane
-- @number now   ms
-- @arg again    when the sweeper looks for a delivery that waits, ms
-- @rest first  ids of deliveries
-- @answer counts, released  of each delivery ok, missing, flying (an attempt is being made) or waits (it is due already, or once a pause is over); id, attempt, waits, backlog and when of each that is released

local words, lanes, released = {}, {}, {}
for i = first, #ARGV do
  local id, key = ARGV[i], t .. 'delivery:' .. ARGV[i]
  local state, attempt, url, endpoint = unpack(call('HMGET', key, 'state', 'attempt', 'url', 'endpoint'))
  local word = 'ok'
  if not state or not url and call('HEXISTS', t .. 'endpoints', endpoint or '') == 0 then
    word = 'missing'
  else
    local lane = lane_of(endpoint, url)
    local over = tonumber(call('ZSCORE', lane .. ':flight', id) or 0)
    local put_off = over > now + flight_life -- released for the end of a pause
    if over > 0 and not put_off then
      word = 'flying'
    elseif put_off or call('ZSCORE', lane .. ':waiting', id) then
      word = 'waits'
      call('HSET', key, 'asked', now, 'base', attempt - 1)
      call('HDEL', key, 'faulty')
    else
      if state ~= 'pending' then
        call('HSET', key, 'state', 'pending')
        attempt = call('HINCRBY', key, 'attempt', 1)
        call('PERSIST', key)
      end
      call('HSET', key, 'due', now, 'base', attempt - 1, 'asked', now)
      call('HDEL', key, 'faulty')
      call('ZADD', outbox, now, id)
      if endpoint then call('ZREM', t .. 'failed:' .. endpoint, id) end
      line_up_delivery(lane, id, now, again)
      lanes[lane] = true
    end
  end
  words[#words + 1] = word
end
for lane in pairs(lanes) do
  for _, r in ipairs(release_lane(lane, now)) do released[#released + 1] = r end
end
return {words, released}
