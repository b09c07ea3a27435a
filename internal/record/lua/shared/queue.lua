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
-- at_once how many may run in all, and pools the windows of the others, by placement. bounds has for each of them, and for '', the numbers of the
-- bounds that hold for it together with others, and most what these are. It answers nothing for any other tenant.
local function shares()
  local said = call('HGETALL', windows)
  if #said == 0 then return nil end
  local w = {common = 0, at_once = 0, pools = {}, order = {}, most = {}, bounds = {}}
  for i = 1, #said, 2 do
    local pool, window = said[i], tonumber(said[i + 1]) or 0
    local bound, bounded = string.match(pool, '^bound:(%d+)$'), string.match(pool, '^bounds:(.*)$')
    if pool == 'common' or pool == 'at_once' then
      w[pool] = window
    elseif pool == 'made' then -- a name for the rest
    elseif bound then
      w.most[bound] = window
    elseif bounded then
      w.bounds[bounded] = said[i + 1]
    else
      w.pools[pool] = window
      w.order[#w.order + 1] = pool
    end
  end
  return w
end

-- add_to counts n jobs more where they are released, in a pool or in '', and in what bounds that together with others.
local function add_to(w, pool, n)
  w.has[pool] = (w.has[pool] or 0) + n
  for bound in string.gmatch(w.bounds[pool] or '', '%d+') do w.most[bound] = (w.most[bound] or math.huge) - n end
end

-- count_in counts which jobs are released or run, of all of these: has is how many in each pool, and in ''. What most has is how many more may be.
local function count_in(w, all)
  w.has = {}
  local elsewhere = 0
  for _, pool in ipairs(w.order) do
    local has = call('SCARD', placed(pool))
    add_to(w, pool, has)
    elsewhere = elsewhere + has
  end
  add_to(w, '', all - elsewhere)
end

-- left_in is how many more jobs may be released in a pool, or in '', once they are counted.
local function left_in(w, pool)
  local left = (pool == '' and w.common or w.pools[pool] or 0) - (w.has[pool] or 0)
  for bound in string.gmatch(w.bounds[pool] or '', '%d+') do left = math.min(left, w.most[bound] or math.huge) end
  return left
end

-- left_in_all is how many more jobs may be released or run, wherever: all of them are.
local function left_in_all(w, all) return w and w.at_once > 0 and w.at_once - all or math.huge end

-- room is how many more jobs without a placement may be released or run. opened of all jobs are released. It counts them.
local function room(window, opened, w)
  local all = opened + call('HLEN', running)
  if not w then return tonumber(window) - all end
  count_in(w, all)
  return math.min(tonumber(window) - w.has[''], left_in(w, ''), left_in_all(w, all))
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
  count_in(w, all)
  local left, ready = math.min(left_in_all(w, all), most), {}
  for _, pool in ipairs(w.order) do
    if left_in(w, pool) > 0 and is_backlogged(pool) then ready[#ready + 1] = {pool = pool, name = pool} end
  end
  w.common = math.min(tonumber(window), w.common)
  if left_in(w, '') > 0 and is_backlogged() then ready[#ready + 1] = {name = ''} end
  if #ready > 1 then -- whose turn it is among those that have as many
    local first = tonumber(string.match(call('HGET', line, 'pool') or '', '^%d%d?%d?%d?%d?%d?$') or 0) % 720720 + 1 -- a multiple of all numbers up to 16
    call('HSET', line, 'pool', first)
    for i, one in ipairs(ready) do one.turn = (i - first) % #ready end
  end
  while left > 0 and #ready > 0 do
    local at = 1
    for i, one in ipairs(ready) do
      local has, least = w.has[one.name], w.has[ready[at].name]
      if has < least or has == least and (one.turn or 0) < (ready[at].turn or 0) then at = i end
    end
    local one = ready[at]
    local n = math.min(#ready == 1 and left or 1, left_in(w, one.name))
    local taken = n > 0 and take(released, one.pool, n, now, due) or 0 -- others may have taken what they have together
    add_to(w, one.name, taken)
    left = left - taken
    if taken < n or left_in(w, one.name) <= 0 or not is_backlogged(one.pool) then table.remove(ready, at) end
  end
  return released
end
