-- start makes a worker the one that runs this epoch of a job: out of where it waits, into running, one attempt more. The same
-- worker may ask again, should the answer get lost. A start ends the wait for a worker that offers what the job needs and, where its
-- last outage is long ago, the day that outages cost it nothing.
-- @include queue
-- @const outage_gap  longest time from an outage to a start whose outage belongs to the same day, ms
-- @arg id             of the job
-- @arg epoch          of the task
-- @arg worker         id of the worker
-- @arg now            ms
-- @number version     newest spec version that the worker knows
-- @arg labels         of the worker, with a comma before, between and behind them
-- @arg only           keys of labels that a job has to name to run there, with commas between
-- @rest first_offered names of the runtimes and images that the worker offers, those in less than gVisor as name@isolation; without any it offers all
-- @answer ok, record  it is the worker's; fields and values of the record
-- @answer missing     there is no such job
-- @answer ended       the job has ended
-- @answer stale       it is in another epoch, or held
-- @answer taken       another worker runs this epoch
-- @answer newer       the spec has a newer version
-- @answer misplaced    the worker hasn't the labels that the job wants, or is kept for jobs that name others
-- @answer not offered, name, priority, placement  the worker doesn't offer the runtime or image of that name, in the isolation that the job accepts at the least

local state, held_epoch, needs, held_by, image, runtime, priority, isolation, pool, unoffered, outage_last = unpack(call('HMGET', job(id),
  'state', 'epoch', 'version', 'worker', 'image', 'runtime', 'priority', 'isolation', 'placement', 'unoffered', 'outage_last'))
local name = image or runtime
local least = isolation and name and name .. '@' .. isolation

local function offered()
  for i = first_offered, #ARGV do
    if ARGV[i] == name or ARGV[i] == least then return true end
  end
  return not ARGV[first_offered]
end

local function is_placed()
  for label in string.gmatch(pool or '', '[^,]+') do
    if not string.find(labels, ',' .. label .. ',', 1, true) then return false end
  end
  for key in string.gmatch(only, '[^,]+') do
    if not string.find(',' .. (pool or ''), ',' .. key .. '=', 1, true) then return false end
  end
  return true
end

if not state then return {'missing'} end
if state == 'held' then return {'stale'} end -- no task of it is there yet
if state ~= 'queued' and state ~= 'running' then return {'ended'} end
if held_epoch ~= epoch then return {'stale'} end
local again = state == 'running'
if again and held_by ~= worker then return {'taken'} end
if tonumber(needs) > version then return {'newer'} end
if not again and not is_placed() then return {'misplaced'} end
if not again and not offered() then return {'not offered', least or name, priority or 'normal', pool or ''} end
call('HSET', job(id), 'state', 'running', 'worker', worker, 'started', now)
if not again then
  call('HINCRBY', job(id), 'attempts', 1)
  if unoffered then call('HDEL', job(id), 'unoffered', 'unoffered_last') end
  outage_last = tonumber(outage_last or nil)
  if outage_last and now - outage_last > outage_gap then call('HDEL', job(id), 'outage', 'outage_last') end
  unqueue(id)
end
call('HSET', running, id, epoch .. ' ' .. worker)
return {'ok', call('HGETALL', job(id))}
