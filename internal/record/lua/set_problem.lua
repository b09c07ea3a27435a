-- set_problem stores the head of a tenant's problem, and what was uploaded for it: these are kept as long as the problem is. One that is
-- there stays as it is.
-- @include memory
-- @const max_problems      how many problems a tenant may have
-- @const problem_cost      what a problem takes of Redis, bytes, with its head
-- @const pin_cost          what each of its uploads takes besides
-- @arg digest              of the problem
-- @arg head                as JSON
-- @number most_recorded    quota bytes_recorded
-- @rest first              its uploads: upload:<sha256>
-- @answer ok               it is stored
-- @answer there, head      it was before
-- @answer full             the tenant has as many as it may
-- @answer missing, upload  that upload is not there, or is being deleted
-- @answer bytes_recorded   the quota is full

local all, pins = t .. 'problems', t .. 'problem:' .. digest
local before = call('HGET', all, digest)
if before then return {'there', before} end
if call('HLEN', all) >= max_problems then return {'full'} end
for i = first, #ARGV do
  local deleted = string.match(call('HGET', t .. 'kept', ARGV[i]) or '', '^%d+ (%d)')
  if deleted ~= '0' then return {'missing', ARGV[i]} end
end
local takes = problem_cost + (#ARGV - first + 1) * pin_cost
if in_redis() + takes > most_recorded then return {'bytes_recorded'} end
call('DEL', pins)
for i = first, #ARGV do call('SADD', pins, ARGV[i]) end
call('HSET', all, digest, head)
charge(takes)
return {'ok'}
