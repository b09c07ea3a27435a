-- send_input appends what a program is sent while it runs, and wakes its worker. All of it is kept until the job ends, for a
-- worker that has to run it again.
-- @const max_input_total  bytes of input that a job gets at most
-- @const input_cost       bytes that an input counts besides its JSON
-- @const input_reserve    bytes beyond that for inputs without data
-- @const input_patience   how long inputs are kept should the job never end, ms
-- @arg id        of the job
-- @number bytes  of data
-- @arg eof       1: there is no more data behind this, else ''
-- @arg input     a job.Input as JSON
-- @answer ok       it is there
-- @answer missing  there is no such job
-- @answer ended    it has ended
-- @answer none     it takes no input
-- @answer waits    it does not run
-- @answer closed   the end of its data was sent
-- @answer full     it has had as much as it may

local job = t .. 'job:' .. id
local state, epoch, worker, interactive, had, closed = unpack(call('HMGET', job, 'state', 'epoch', 'worker', 'interactive', 'input', 'input_closed'))
if not state then return 'missing' end
if state ~= 'held' and state ~= 'queued' and state ~= 'running' then return 'ended' end
if not interactive then return 'none' end
if state ~= 'running' or not worker or not epoch then return 'waits' end
if closed and (bytes > 0 or eof == '1') then return 'closed' end
local size = (tonumber(had) or 0) + #input + input_cost
if size > max_input_total + (bytes == 0 and input_reserve or 0) then return 'full' end
call('RPUSH', t .. 'input:' .. id, epoch .. ' ' .. input) -- it fails first where a worker has spoiled it
call('HSET', job, 'input', size)
if eof == '1' then call('HSET', job, 'input_closed', 1) end
call('PEXPIRE', t .. 'input:' .. id, input_patience)
redis.pcall('PUBLISH', 'gb:turn:' .. worker, id)
return 'ok'
