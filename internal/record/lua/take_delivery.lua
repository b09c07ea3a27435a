-- take_delivery begins an attempt at a delivery where its lane has room, and has it wait there where it has none, for as long as
-- it may. An endpoint that is disabled takes one a day: whatever else comes is missed. A test goes at once.
-- @include lane
-- @arg id       of the delivery
-- @arg attempt  of the task
-- @arg waits    of the task
-- @arg now      ms
-- @number most  how many attempts may be made at once at one endpoint
-- @arg over     when the attempt is over at the latest, ms
-- @arg again    when the sweeper looks for a delivery that waits, ms
-- @number patience  how long after it was made or asked for a delivery may wait, ms
-- @answer ok, record, endpoint, signing, undone  the attempt is the caller's: fields and values of the record, the endpoint as JSON or '', fields and values of what signs, pending deliveries of the tenant
-- @answer disabled, record, endpoint, signing, undone  no attempt is made, as the endpoint is disabled
-- @answer overdue, record, endpoint, signing, undone   no attempt is made, as it has waited for too long
-- @answer waits, released  it waits; id, attempt, waits, backlog and when of each delivery that is released
-- @answer missing, released  there is no such delivery; as with waits, of those that have its place at an endpoint
-- @answer stale            the attempt was made before, or is another task's

local key = t .. 'delivery:' .. id
local state, held_attempt, held_waits, url, endpoint, once, due, created, asked = unpack(call('HMGET', key,
  'state', 'attempt', 'waits', 'url', 'endpoint', 'once', 'due', 'created', 'asked'))
if not state then
  call('ZREM', outbox, id)
  local released = {} -- which lane it was in, its record said: it is looked for in those of the endpoints, a few dozen at most
  for _, e in ipairs(call('HKEYS', t .. 'endpoints')) do
    for _, r in ipairs(leave_lane(lane_of(e), id, now, most)) do released[#released + 1] = r end
  end
  return {'missing', released}
end
if state ~= 'pending' or held_attempt ~= attempt or (held_waits or '0') ~= waits then return {'stale'} end
local settings = endpoint and call('HGET', t .. 'endpoints', endpoint) or ''
local word, lane = 'ok', (url or settings ~= '') and lane_of(endpoint, url)
if lane and not once then
  local disabled, pause = unpack(call('HMGET', lane, 'disabled', 'pause'))
  pause = tonumber(pause or 0)
  if disabled and (pause <= tonumber(now) or pause <= tonumber(due or 0)) then -- what was put off for the pause is the try, whatever this process's clock says
    call('HSET', lane, 'pause', again, 'probe', id) -- deliver says when the next is made; where this process dies, another is then
    call('HDEL', lane, 'held')
  elseif call('ZSCORE', lane .. ':flight', id) then
    word = 'ok'
  elseif disabled then
    word = 'disabled'
  elseif not has_room(lane, now, most) then
    if now - (tonumber(asked or created) or 0) <= patience then
      line_up_delivery(lane, id, due, again)
      return {'waits', release_lane(lane, now, most)}
    end
    word = 'overdue'
  end
end
if lane and word == 'ok' then
  call('ZREM', lane .. ':waiting', id) -- else what leaves the lane would release it to itself
  fly(lane, id, over)
end
return {word, call('HGETALL', key), settings, call('HGETALL', t .. 'webhook'), call('ZCARD', outbox)}
