-- Where a tenant's jobs wait: for approval, for later, the backlog, released (open), running (docs/adr/0007-backlog.md).
-- @include bytes

local open, running, queued, line, later = t .. 'open', t .. 'running', t .. 'queued', t .. 'line', t .. 'later'
local approvals = t .. 'approvals'
-- Jobs with a placement have backlogs of their own, and windows (docs/adr/0062-placement.md). in_pools has all that wait there.
local windows, in_pools = t .. 'windows', t .. 'backlog:@'
local function job(id) return t .. 'job:' .. id end
local function backlog(priority, pool) return t .. 'backlog:' .. priority .. (pool and '@' .. pool or '') end
local function placed(pool) return t .. 'placed:' .. pool end

local function is_backlogged(pool) return call('EXISTS', backlog('high', pool), backlog('normal', pool), backlog('low', pool)) > 0 end

-- shares reads what the sweeper has given the tenant, which has jobs with placements: common is the window of those without,
-- at_once how many may run in all, and pools the windows of the others, by placement. It answers nothing for any other tenant.
local function shares()
  local said = call('HGETALL', windows)
  if #said == 0 then return nil end
  local w = {common = 0, at_once = 0, pools = {}, order = {}}
  for i = 1, #said, 2 do
    local pool, window = said[i], tonumber(said[i + 1]) or 0
    if pool == 'common' or pool == 'at_once' then
      w[pool] = window
    else
      w.pools[pool] = window
      w.order[#w.order + 1] = pool
    end
  end
  return w
end

-- left_in_all is how many more jobs may be released or run, wherever: all of them are.
local function left_in_all(w, all) return w and w.at_once > 0 and w.at_once - all or math.huge end

-- room is how many more jobs without a placement may be released or run. opened of all jobs are released.
local function room(window, opened, w)
  local all = opened + call('HLEN', running)
  if not w then return tonumber(window) - all end
  local elsewhere = 0
  for _, pool in ipairs(w.order) do elsewhere = elsewhere + call('SCARD', placed(pool)) end
  return math.min(math.min(tonumber(window), w.common) - (all - elsewhere), left_in_all(w, all))
end

-- waiting is how many jobs are queued: opened of them are released, the others are in the backlog, for later, or for approval.
local function waiting(opened)
  return opened + call('ZCARD', approvals) + call('ZCARD', later) + call('ZCARD', in_pools) + call('ZCARD', backlog('high')) + call('ZCARD', backlog('normal')) + call('ZCARD', backlog('low'))
end

-- backlog_of is the key of the backlog that a job is for, whatever a worker made of its record.
local function backlog_of(priority, pool)
  return backlog((priority == 'high' or priority == 'low') and priority or 'normal', pool)
end

-- line_up puts n jobs at the end of their backlogs. jobs has a list for each backlog's key: place, id, …, with places from 1 to n; that of
-- in_pools has once more those with a placement.
local function line_up(jobs, n)
  if n == 0 then return end
  local before = call('HINCRBY', line, 'last', n) - n
  for key, list in pairs(jobs) do
    for i = 1, #list, 2 do list[i] = before + list[i] end
    if #list > 0 then call('ZADD', key, unpack(list)) end
  end
end

-- line_up_one is line_up of one job.
local function line_up_one(id, priority, pool)
  line_up({[backlog_of(priority, pool)] = {1, id}, [in_pools] = pool and {1, id} or {}}, 1)
end

-- open_up releases a job: it wants a task, and the sweeper looks for that once due.
local function open_up(id, epoch, priority, now, due, pool)
  call('ZADD', open, due, id)
  call('HSET', job(id), 'released', now)
  if pool then call('SADD', placed(pool), id) end
  return {id, epoch, priority, pool or ''}
end

-- unqueue takes a job that is no longer queued out of where it waits, and its bytes out of its tenant's.
local function unqueue(id)
  local bytes, priority, pool = unpack(call('HMGET', job(id), 'bytes', 'priority', 'placement'))
  if call('ZREM', open, id) + call('ZREM', backlog(priority or 'normal', pool), id) == 0 then call('ZREM', later, id) end
  if pool then call('ZREM', in_pools, id) end
  count(queued, -(tonumber(bytes or 0) or 0))
end

-- unhold takes a job that is no longer held out of where it waits, and its bytes out of its tenant's.
local function unhold(id)
  call('ZREM', approvals, id)
  count(queued, -(tonumber(call('HGET', job(id), 'bytes') or 0) or 0))
end

-- Of ten jobs that are released six are high, three normal, one low; a priority without any gives its turn away.
local turns = {'high', 'normal', 'high', 'high', 'low', 'high', 'normal', 'high', 'normal', 'high'}

-- take moves jobs from the backlog of a pool, or from that of jobs without a placement, to open: most of them at most, which it appends to
-- released. It drops entries whose record a worker that was taken over has changed or deleted, 1,000 at most: Redis does nothing else meanwhile.
local function take(released, pool, most, now, due)
  local left, dropped = most, 0
  local field = pool and 'turn@' .. pool or 'turn' -- pools that take turns one job each would see every other priority of a common one
  local turn = tonumber(string.match(call('HGET', line, field) or '', '^%d%d?$') or 0)
  while left > 0 and dropped < 1000 and is_backlogged(pool) do
    turn = turn % #turns + 1
    local priority = turns[turn]
    local id = call('ZPOPMIN', backlog(priority, pool))[1]
    if id then
      if pool then call('ZREM', in_pools, id) end
      local state, epoch = unpack(call('HMGET', job(id), 'state', 'epoch'))
      if state == 'queued' then
        left = left - 1
        released[#released + 1] = open_up(id, epoch, priority, now, due, pool)
      else
        dropped = dropped + 1
      end
    end
  end
  call('HSET', line, field, turn)
  return most - left
end

-- release moves jobs from backlogs to open while there is room, most of them at most. Of several pools, the one that has fewest released or
-- running goes first; of those that have as many, in turn: so none of a tenant's pools keeps another from its quota for long.
local function release(window, now, due, most)
  local released, w = {}, shares()
  if not w then
    local left = math.min(room(window, call('ZCARD', open)), most)
    if left > 0 and is_backlogged() then take(released, nil, left, now, due) end
    return released
  end
  local all = call('ZCARD', open) + call('HLEN', running)
  local left, elsewhere, ready = math.min(left_in_all(w, all), most), 0, {}
  for _, pool in ipairs(w.order) do
    local has = call('SCARD', placed(pool))
    elsewhere = elsewhere + has
    if has < w.pools[pool] and is_backlogged(pool) then ready[#ready + 1] = {pool = pool, has = has, may = w.pools[pool]} end
  end
  local common = {has = all - elsewhere, may = math.min(tonumber(window), w.common)}
  if common.has < common.may and is_backlogged() then ready[#ready + 1] = common end
  if #ready > 1 then -- whose turn it is among those that have as many
    local first = tonumber(string.match(call('HGET', line, 'pool') or '', '^%d%d?%d?%d?%d?%d?$') or 0) % 720720 + 1 -- a multiple of all numbers up to 16
    call('HSET', line, 'pool', first)
    for i, one in ipairs(ready) do one.turn = (i - first) % #ready end
  end
  while left > 0 and #ready > 0 do
    local at = 1
    for i, one in ipairs(ready) do
      if one.has < ready[at].has or one.has == ready[at].has and (one.turn or 0) < (ready[at].turn or 0) then at = i end
    end
    local one = ready[at]
    local n = #ready == 1 and math.min(left, one.may - one.has) or 1
    local taken = take(released, one.pool, n, now, due)
    one.has, left = one.has + taken, left - taken
    if taken < n or one.has >= one.may or not is_backlogged(one.pool) then table.remove(ready, at) end
  end
  return released
end
