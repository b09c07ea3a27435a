-- What end and cancel have in common: finish gives a job its final status and result, makes its delivery, counts it in its
-- batch, and releases the next of its tenant's jobs. That is one at most: a window that has grown is the release pass's to
-- fill, which knows how many tenants share the queue.
-- @include queue
-- @include lending
-- @include batch
-- @include run
-- @include budget
-- @const expired_delay   how long after a record expires its objects and counts go, ms
-- @const event_life      how long events outlive their job if somebody watches it, ms
-- @const usage_life      how long the usage of a day is kept, ms
-- @const placed_usage_life  how long it is kept how many jobs of each placement have ended on a day, ms
-- @const unwatched_life  how long events outlive their job if nobody watches it, ms
-- @arg id           of the job
-- @arg now          ms
-- @arg status       a final one
-- @number default_retention  how long a job is kept whose record doesn't say, ms
-- @arg result       as JSON, or '' for one that is in the bucket alone
-- @arg result_ref   the S3 key of result.json, or ''
-- @arg input_ref    the S3 key of what an execution of a session was given, or '': the record keeps that
-- @arg rested       1: it was an execution, and its session is ready for the next, with all its state
-- @arg head         it was an execution that is attested: the digest that stands for all of its session up to it, or ''
-- @number attested  how many these are
-- @arg result_life  how long Redis keeps a result that the bucket also has, ms
-- @arg stored       bytes of the job's objects
-- @arg dirty        1: there may be objects that no record points to
-- @arg delivery     id of the delivery to the job's callback, made only if it has one
-- @arg message      id of the event, for endpoints that want it
-- @arg event        what the delivery tells
-- @arg ran          1: it ran, and what follows is counted
-- @arg cpu_ms       CPU time, ms
-- @arg mib_ms       memory that was reserved, MiB ms
-- @arg nano         what that cost, billionths
-- @arg month        of UTC, such as 2026-11, in which what it cost is counted
-- @number budget    what the tenant's jobs may cost in it, billionths; 0: any
-- @number warn_at   what they have cost when budget.warning is told of
-- @arg budget_of    the tenant, the month and the budget, with blanks between
-- @arg warning      id of the event budget.warning of that budget
-- @arg exceeded     id of the event budget.exceeded
-- @arg window       how many jobs of the tenant may be released or running
-- @arg due          when the sweeper looks for the task of the job that is released here, ms
-- @arg lend_most    bytes that the tenant may have lent
-- @answer missing   there is no such job
-- @answer ended     it has ended before

local state, held_epoch, held_by, callback, spec_ref, retention, created, batch, charged, watched, run, item, try, sequence, session, interactive, pool = unpack(call('HMGET', job(id),
  'state', 'epoch', 'worker', 'callback', 'spec_ref', 'retention', 'created', 'batch', 'charge', 'watched', 'run', 'item', 'try', 'sequence', 'session', 'interactive', 'placement'))
local spec_stays = sequence and input_ref == '' -- what a session has executed is kept with what came of it
-- A worker may spoil a record. What follows the first write must not fail for it.
retention, created = tonumber(retention) or default_retention, created or now
if not state then return {'missing'} end
if state ~= 'held' and state ~= 'queued' and state ~= 'running' then return {'ended'} end

-- keep stores the result, and counts what is kept of the job until it is forgotten.
local function keep()
  charged = tonumber(charged or 0)
  local left = spec_stays and charged or math.max(charged - text_cost(call('HSTRLEN', job(id), 'spec')), 0)
  if result_ref == '' then
    call('HSET', job(id), 'result', result)
    left = left + text_cost(#result)
  elseif result ~= '' then
    local life = math.min(result_life, retention)
    call('SET', t .. 'result:' .. id, result, 'PX', life)
    lend('result:' .. id, text_cost(#result), now + life, now, lend_most)
  end
  charge(left - charged)
  call('HSET', t .. 'kept', id, stored .. ' ' .. created .. ' ' .. left)
  count(t .. 'stored', stored)
end

-- meter counts what the job used for its tenant's day, in UTC. The numbers stay texts, as Lua's lose digits. A worker may
-- spoil what is counted up: no end fails for that.
local function meter()
  local day = t .. 'usage:' .. string.format('%d', math.floor(tonumber(now) / 86400000))
  local jobs = redis.pcall('HINCRBY', day, 'jobs', 1)
  for name, n in pairs({cpu_ms = cpu_ms, mib_ms = mib_ms, nano = nano}) do
    if n ~= '0' then redis.pcall('HINCRBY', day, name, n) end
  end
  if jobs == 1 or type(jobs) ~= 'number' then redis.pcall('PEXPIRE', day, usage_life) end
  if not pool then return end
  jobs = redis.pcall('HINCRBY', day .. ':placed', pool, 1)
  if jobs == 1 or type(jobs) ~= 'number' then redis.pcall('PEXPIRE', day .. ':placed', placed_usage_life) end
end

-- spend counts what the job cost for its tenant's month, and tells of what that makes of a budget. It answers what tell answers.
local function spend()
  if nano == '0' then return '' end
  local key = t .. 'usage:' .. month
  local spent = redis.pcall('HINCRBY', key, 'nano', nano)
  if type(spent) ~= 'number' then return '' end -- a worker has spoiled it
  if spent == tonumber(nano) then redis.pcall('PEXPIRE', key, usage_life) end
  return tell_budget(key, spent, budget, warn_at, budget_of, warning, exceeded, now, now + default_retention)
end

-- rest makes the session ready for its next execution.
local function rest()
  local key = t .. 'session:' .. session
  local x = redis.pcall('HMGET', key, 'state', 'turn')
  if x[1] == 'busy' and x[2] == id then
    call('HDEL', key, 'turn')
    call('HSET', key, 'state', 'ready', 'active', now)
  end
end

-- follow notes how far a session's chain of attested executions goes. That of one that is forgotten is nobody's to ask for.
local function follow()
  local key = t .. 'session:' .. session
  if redis.pcall('HEXISTS', key, 'state') == 1 then call('HSET', key, 'head', head, 'attested', attested) end
end

-- use counts what an execution used for its session's budget. A worker may spoil what is counted up.
local function use()
  local key = t .. 'session:' .. session
  if redis.pcall('HEXISTS', key, 'state') == 1 then redis.pcall('HINCRBY', key, 'cpu_ms', cpu_ms) end
end

local function finish()
  if state == 'queued' then unqueue(id) end
  if state == 'held' then unhold(id) end
  if state == 'held' and session then -- what waits behind it goes on, unless all ends
    local x = redis.pcall('HMGET', t .. 'session:' .. session, 'worker', 'state')
    if x[1] and x[2] ~= 'ended' then redis.pcall('PUBLISH', 'gb:turn:' .. x[1], session) end
  end
  if session and rested == '1' then rest() end
  if session and head ~= '' then follow() end
  call('HSET', job(id), 'state', status, 'finished', now, 'result_ref', result_ref)
  keep()
  local warned = ''
  if ran == '1' then
    meter()
    if session then use() end
    warned = spend()
  end
  if not spec_stays then call('HDEL', job(id), 'spec', 'spec_ref') end
  if input_ref ~= '' then call('HSET', job(id), 'input_ref', input_ref) end
  call('HDEL', running, id)
  if pool then call('SREM', placed(pool), id) end
  if interactive then call('DEL', t .. 'input:' .. id) end
  call('ZREM', t .. 'deadline', id)
  local made = {tell(event, callback, delivery, message, now, 'job', id, 'expires', string.format('%.0f', now + retention))}
  if dirty == '1' or tonumber(held_epoch) > 1 or spec_ref then
    call('ZADD', t .. 'garbage', now, id)
  else
    call('ZADD', t .. 'garbage', now + retention + expired_delay, id)
  end
  call('PEXPIRE', job(id), retention)
  local life = tonumber(watched or 0) > tonumber(now) and event_life or unwatched_life
  if call('PEXPIRE', t .. 'events:' .. id, life) == 1 then call('ZADD', lent, 'XX', now + life, 'events:' .. id) end
  call('PUBLISH', 'gb:done', id)
  if run then note_end(run, item, try, status) end
  local told = batch and count_ended(batch, status, now) or ''
  made[2], made[3] = told, warned
  return {'ok', release(window, now, due, 1), made}
end
