-- deliver records what an attempt at a delivery came to, and how its endpoint does, and releases what waits for that. How a
-- callback's host does is forgotten once its last attempt has succeeded and nothing else is under way or waits. Until then it counts.
-- @include lane
-- @include memory
-- @include delivery
-- @const probe_interval     how often an endpoint that is disabled is tried, ms
-- @const disable_after      how long nothing has to succeed for an endpoint to be disabled, ms
-- @const failing_gap        how long there may be no attempt in that time, ms
-- @const delivery_log       how many attempts a delivery's record tells of
-- @const endpoint_log       how many attempts are told of an endpoint
-- @const endpoint_failed    how many failed deliveries of an endpoint are known
-- @arg id         of the delivery
-- @arg attempt    its number
-- @arg now        ms
-- @arg state      pending, delivered, failed or gone
-- @arg due        when the next attempt is due, of one that is pending, ms
-- @arg status     the HTTP status of the answer, or 0
-- @arg problem    why the attempt failed, or ''
-- @arg retention  how long one that is done is kept if its record has no time for that, as a batch's has none, ms
-- @arg began      when the attempt began, ms, or '' where nothing was sent
-- @arg entry      what is told of the attempt, as JSON, or ''
-- @arg endpoint   that it went to, or ''
-- @arg url        of a callback
-- @arg disabled_event  id of the event that the endpoint is disabled by this
-- @arg enabled_event   id of the event that it is enabled by this
-- @number most    how many attempts may be made at once at one endpoint
-- @rest first_pause  how long none begins after that many failures in a row, ms
-- @answer ok, due, released, deliveries  it is recorded; when the next attempt is due; id, attempt, waits, backlog and when of each delivery that is released; what tell answered
-- @answer missing, '', released, ''  there is no such delivery
-- @answer stale    the attempt was recorded before

local delivery, lane = t .. 'delivery:' .. id, lane_of(endpoint, url)
local held_state, held_attempt, expires = unpack(call('HMGET', delivery, 'state', 'attempt', 'expires'))
if held_state and (held_state ~= 'pending' or held_attempt ~= attempt) then return {'stale'} end
local known = endpoint == '' or call('HEXISTS', t .. 'endpoints', endpoint) == 1
local told = ''

local function news(event, message, reason)
  told = tell(event, nil, nil, message, now, 'news', 'endpoint ' .. endpoint .. ' ' .. reason .. ' ' .. now, 'expires', string.format('%.0f', now + retention))
end

-- failed notes a failure: the window closes, and a pause begins that is longer the more failed in a row. Attempts that were made
-- side by side count as one, and so does a message that fails alone among others.
local function failed()
  local failures, last, since, disabled = unpack(call('HMGET', lane, 'failures', 'failed', 'failing', 'disabled'))
  failures, last = tonumber(failures or 0), tonumber(last or 0)
  if not since or tonumber(now) - last > failing_gap then
    since = now
    call('HSET', lane, 'failing', now)
  end
  if tonumber(began) >= last then failures = failures + 1 end
  local pause = ARGV[first_pause + math.max(math.min(failures, #ARGV - first_pause + 1), 1) - 1] or '0'
  call('HSET', lane, 'failures', failures, 'failed', now, 'window', 1, 'pause', string.format('%.0f', now + pause))
  if endpoint == '' then return end
  if not disabled and (state == 'gone' or now - since >= disable_after) then
    call('HSET', lane, 'disabled', now, 'reason', state == 'gone' and 'gone' or 'failing')
    disabled = now
    news('endpoint.disabled', disabled_event, state == 'gone' and 'gone' or 'failing')
  end
  if disabled then
    local probe = string.format('%.0f', now + probe_interval)
    call('HSET', lane, 'pause', probe)
    call('HDEL', lane, 'probe') -- the day's try was made
    if state == 'pending' then
      due = probe
      local held = call('HGET', lane, 'held') -- until then: set_endpoint has them go at once. As many as were in flight, at most
      call('HSET', lane, 'held', held and held .. ' ' .. id or id)
    end
  end
end

local function succeeded()
  local window, disabled = unpack(call('HMGET', lane, 'window', 'disabled'))
  window = tonumber(window or 1)
  if disabled then news('endpoint.enabled', enabled_event, 'delivered') end
  call('HDEL', lane, 'failures', 'failed', 'failing', 'pause', 'disabled', 'reason', 'probe', 'held')
  call('HSET', lane, 'window', math.min(window * 2, most))
end

if known then
  call('ZREM', lane .. ':flight', id)
  if began ~= '' and held_state then
    if state == 'delivered' then succeeded() else failed() end
    if endpoint ~= '' then call('HSET', lane, 'last', now, 'status', status, 'error', problem) end
  end
end
local released = known and release_lane(lane, now, most) or {}
if endpoint == '' and began ~= '' and held_state then
  if state == 'delivered' and call('EXISTS', lane .. ':flight', lane .. ':waiting') == 0 then
    call('DEL', lane)
    call('ZREM', lasting, lane)
  else
    call('PEXPIRE', lane, lane_life)
    count_until(lasting, lane, now, now + lane_life, 0)
  end
end
if not held_state then
  call('ZREM', outbox, id)
  return {'missing', '', released, told}
end

call('HSET', delivery, 'state', state, 'sent', now, 'status', status, 'error', problem)
call('HDEL', delivery, 'faulty')
if entry ~= '' then
  call('HSET', delivery, 'a' .. attempt, entry)
  call('HDEL', delivery, 'a' .. string.format('%.0f', attempt - delivery_log))
end
if endpoint ~= '' and known then
  if entry ~= '' then call('XADD', t .. 'attempts:' .. endpoint, 'MAXLEN', endpoint_log, '*', 'id', id, 'entry', entry) end
  local list = t .. 'failed:' .. endpoint
  if state == 'failed' or state == 'gone' then
    call('ZADD', list, now, id)
    call('ZREMRANGEBYRANK', list, 0, -endpoint_failed - 1)
    call('PEXPIRE', list, retention)
  end
end
if state == 'pending' then
  call('HINCRBY', delivery, 'attempt', 1)
  call('HSET', delivery, 'due', due)
  call('ZADD', outbox, due, id)
else
  call('ZREM', outbox, id)
  if expires then call('PEXPIREAT', delivery, expires) else call('PEXPIRE', delivery, retention) end
end
return {'ok', due, released, told}
