-- delete_problem forgets a tenant's problem, and which jobs it graded. What was uploaded for it is kept for a while longer, as any upload is
-- that somebody has asked for: jobs may wait that want it.
-- @include memory
-- @const problem_cost  what a problem takes of Redis, bytes, with its head
-- @const pin_cost      what each of its uploads takes besides
-- @const graded_cost   what it takes to know that it graded a job
-- @arg digest          of the problem
-- @arg keep_until      until when its uploads are kept, ms
-- @answer 1  it is gone
-- @answer 0  there is none

local pins = t .. 'problem:' .. digest
if call('HDEL', t .. 'problems', digest) == 0 then return 0 end
local uploads = call('SMEMBERS', pins)
for _, upload in ipairs(uploads) do
  if call('HEXISTS', t .. 'kept', upload) == 1 then call('ZADD', t .. 'garbage', 'GT', keep_until, upload) end
end
local graded = t .. 'graded:' .. digest
charge(-(problem_cost + #uploads * pin_cost + call('ZCARD', graded) * graded_cost))
call('DEL', pins, graded)
return 1
