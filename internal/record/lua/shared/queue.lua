-- Where a tenant's jobs wait: for approval, for later, the backlog, released (open), running (docs/adr/0007-backlog.md).
-- @include bytes

local open, running, queued, line, later = t .. 'open', t .. 'running', t .. 'queued', t .. 'line', t .. 'later'
local approvals = t .. 'approvals'
local function job(id) return t .. 'job:' .. id end
local function backlog(priority) return t .. 'backlog:' .. priority end

-- room is how many more jobs may be released or run. opened of them are released.
local function room(window, opened) return tonumber(window) - opened - call('HLEN', running) end

local function is_backlogged() return call('EXISTS', backlog('high'), backlog('normal'), backlog('low')) > 0 end

-- waiting is how many jobs are queued: opened of them are released, the others are in the backlog, for later, or for approval.
local function waiting(opened)
  return opened + call('ZCARD', approvals) + call('ZCARD', later) + call('ZCARD', backlog('high')) + call('ZCARD', backlog('normal')) + call('ZCARD', backlog('low'))
end

-- line_up puts n jobs at the end of their backlogs. jobs has a list for each priority: place, id, …, with places from 1 to n.
local function line_up(jobs, n)
  if n == 0 then return end
  local before = call('HINCRBY', line, 'last', n) - n
  for priority, list in pairs(jobs) do
    for i = 1, #list, 2 do list[i] = before + list[i] end
    if #list > 0 then call('ZADD', backlog(priority), unpack(list)) end
  end
end

-- open_up releases a job: it wants a task, and the sweeper looks for that once due.
local function open_up(id, epoch, priority, now, due)
  call('ZADD', open, due, id)
  call('HSET', job(id), 'released', now)
  return {id, epoch, priority}
end

-- unqueue takes a job that is no longer queued out of where it waits, and its bytes out of its tenant's.
local function unqueue(id)
  local bytes, priority = unpack(call('HMGET', job(id), 'bytes', 'priority'))
  if call('ZREM', open, id) + call('ZREM', backlog(priority or 'normal'), id) == 0 then call('ZREM', later, id) end
  count(queued, -(tonumber(bytes or 0) or 0))
end

-- unhold takes a job that is no longer held out of where it waits, and its bytes out of its tenant's.
local function unhold(id)
  call('ZREM', approvals, id)
  count(queued, -(tonumber(call('HGET', job(id), 'bytes') or 0) or 0))
end

-- Of ten jobs that are released six are high, three normal, one low; a priority without any gives its turn away.
local turns = {'high', 'normal', 'high', 'high', 'low', 'high', 'normal', 'high', 'normal', 'high'}

-- release moves jobs from the backlog to open while there is room, most of them at most. It drops entries whose record a
-- worker that was taken over has changed or deleted, 1,000 at most: Redis does nothing else meanwhile.
local function release(window, now, due, most)
  local released, left, dropped = {}, math.min(room(window, call('ZCARD', open)), most), 0
  if left <= 0 or not is_backlogged() then return released end
  local turn = tonumber(string.match(call('HGET', line, 'turn') or '', '^%d%d?$') or 0)
  while left > 0 and dropped < 1000 and is_backlogged() do
    turn = turn % #turns + 1
    local priority = turns[turn]
    local id = call('ZPOPMIN', backlog(priority))[1]
    if id then
      local state, epoch = unpack(call('HMGET', job(id), 'state', 'epoch'))
      if state == 'queued' then
        left = left - 1
        released[#released + 1] = open_up(id, epoch, priority, now, due)
      else
        dropped = dropped + 1
      end
    end
  end
  call('HSET', line, 'turn', turn)
  return released
end
