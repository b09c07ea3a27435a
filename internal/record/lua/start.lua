-- start makes a worker the one that runs this epoch of a job: out of where it waits, into running, one attempt more. The same
-- worker may ask again, should the answer get lost.
-- @include queue
-- @arg id             of the job
-- @arg epoch          of the task
-- @arg worker         id of the worker
-- @arg now            ms
-- @number version     newest spec version that the worker knows
-- @rest first_offered names of the runtimes and images that the worker offers, those in less than gVisor as name@isolation; without any it offers all
-- @answer ok, record  it is the worker's; fields and values of the record
-- @answer missing     there is no such job
-- @answer ended       the job has ended
-- @answer stale       it is in another epoch, or held
-- @answer taken       another worker runs this epoch
-- @answer newer       the spec has a newer version
-- @answer not offered, name, priority  the worker doesn't offer the runtime or image of that name, in the isolation that the job accepts at the least

local state, held_epoch, needs, held_by, image, runtime, priority, isolation = unpack(call('HMGET', job(id),
  'state', 'epoch', 'version', 'worker', 'image', 'runtime', 'priority', 'isolation'))
local name = image or runtime
local least = isolation and name and name .. '@' .. isolation

local function offered()
  for i = first_offered, #ARGV do
    if ARGV[i] == name or ARGV[i] == least then return true end
  end
  return not ARGV[first_offered]
end

if not state then return {'missing'} end
if state == 'held' then return {'stale'} end -- no task of it is there yet
if state ~= 'queued' and state ~= 'running' then return {'ended'} end
if held_epoch ~= epoch then return {'stale'} end
local again = state == 'running'
if again and held_by ~= worker then return {'taken'} end
if tonumber(needs) > version then return {'newer'} end
if not again and not offered() then return {'not offered', least or name, priority or 'normal'} end
call('HSET', job(id), 'state', 'running', 'worker', worker, 'started', now)
if not again then
  call('HINCRBY', job(id), 'attempts', 1)
  unqueue(id)
end
call('HSET', running, id, epoch .. ' ' .. worker)
return {'ok', call('HGETALL', job(id))}
