-- Lanes: each endpoint, or scheme and host of a callback, has a line of its own (docs/adr/0032-endpoints.md). A lane's hash has
-- its window (how many attempts may be made at once), its pause (until when none begins) and how the last attempts went. In
-- flight are those whose attempt is made, or is about to be, each with when it is over at the latest; waiting are those that are
-- due and have no room.
-- @const flight_life  how long a delivery that is released may take until its attempt begins, ms
-- @const lane_life    how long a callback's lane is kept after the last attempt, ms

local outbox = t .. 'outbox'

-- lane_of is the lane of an endpoint, or of a callback's scheme and host.
local function lane_of(endpoint, url)
  if endpoint and endpoint ~= '' then return t .. 'lane:' .. endpoint end
  return t .. 'lane:' .. redis.sha1hex(string.match(string.lower(url), '^https?://[^/?#]*') or '')
end

-- in_flight counts what is in flight, without what a process took along that died.
local function in_flight(lane, now)
  call('ZREMRANGEBYSCORE', lane .. ':flight', '-inf', now)
  return call('ZCARD', lane .. ':flight')
end

local function fly(lane, id, over)
  call('ZADD', lane .. ':flight', over, id)
  call('PEXPIRE', lane .. ':flight', lane_life)
end

-- has_room says whether an attempt may begin now.
local function has_room(lane, now, most)
  local window, pause = unpack(call('HMGET', lane, 'window', 'pause'))
  return tonumber(pause or 0) <= tonumber(now) and in_flight(lane, now) < math.min(tonumber(window or 1), most)
end

-- line_up has a delivery wait. The sweeper looks at it again, should the lane forget it.
local function line_up_delivery(lane, id, due, again)
  call('ZADD', lane .. ':waiting', due, id)
  call('PEXPIRE', lane .. ':waiting', lane_life)
  call('ZADD', outbox, 'XX', again, id)
end

-- release_lane takes those that wait longest out of the line, as many as may be in flight. In a pause that is one, if none is in
-- flight, for when the pause is over. Without most the window alone bounds them, which the deliverer's most does. It answers id, attempt, waits, backlog and when of each: each wants a task.
local function release_lane(lane, now, most)
  local window, pause = unpack(call('HMGET', lane, 'window', 'pause'))
  local flying = in_flight(lane, now)
  local room, at = math.min(tonumber(window or 1), most or math.huge) - flying, now
  if tonumber(pause or 0) > tonumber(now) then
    room, at = flying == 0 and 1 or 0, pause
  end
  local released, dropped = {}, 0
  while room > 0 and dropped < 1000 do
    local id = call('ZPOPMIN', lane .. ':waiting')[1]
    if not id then break end
    local key = t .. 'delivery:' .. id
    local state, attempt, backlog = unpack(call('HMGET', key, 'state', 'attempt', 'backlog'))
    if state == 'pending' then
      call('HSET', key, 'due', at)
      call('ZADD', outbox, at, id)
      fly(lane, id, string.format('%.0f', at + flight_life))
      released[#released + 1] = {id, attempt, call('HINCRBY', key, 'waits', 1), backlog or '0', at}
      room = room - 1
    else
      dropped = dropped + 1
    end
  end
  return released
end

-- leave_lane takes a delivery out of its lane, and releases what its place is free for.
local function leave_lane(lane, id, now, most)
  call('ZREM', lane .. ':waiting', id)
  if call('ZREM', lane .. ':flight', id) == 0 then return {} end
  return release_lane(lane, now, most)
end

-- drop_deliveries deletes deliveries, even pending ones, whose ids are in a script's arguments from there on. It answers what has their places, as release_lane does.
local function drop_deliveries(first, now)
  local released = {}
  for i = first, #ARGV do
    local key = t .. 'delivery:' .. ARGV[i]
    local endpoint, url = unpack(call('HMGET', key, 'endpoint', 'url'))
    call('DEL', key)
    if endpoint or url then -- it keeps no place in its lane
      for _, r in ipairs(leave_lane(lane_of(endpoint, url), ARGV[i], now)) do released[#released + 1] = r end
    end
    call('ZREM', outbox, ARGV[i])
    call('ZREM', t .. 'lasting:deliveries', ARGV[i])
  end
  return released
end
