-- reject notes that a job of a batch is not accepted, and why, as far as there is room for that.
-- @include batch
-- @const item_cost         what a job's fingerprint in its batch takes, bytes
-- @const fault_cost        what a rejected job's error takes besides its text, bytes
-- @const max_batch_errors  how many errors a batch keeps
-- @arg id                 of the batch
-- @arg due                when it is given up if no more of it comes, ms
-- @number index           of the job
-- @arg fingerprint        of the job, with the bit for rejected
-- @arg fault              the error as JSON
-- @number most_recorded   quota bytes_recorded
-- @answer ok        it is noted
-- @answer there     it was noted, or accepted, before
-- @answer conflict  another job is in its place
-- @answer sealed    the batch receives no more
-- @answer missing   there is no such batch

local state = call('HGET', batch_key(id), 'state')
if not state then return 'missing' end
local word = compare(fingerprints(id, index, index)[index], fingerprint)
if word then return word end
if state ~= 'receiving' then return 'sealed' end
note(id, index, fingerprint)
call('HINCRBY', batch_key(id), 'rejected', 1)
local size = fault_cost + text_cost(#fault)
if call('HLEN', errors_key(id)) < max_batch_errors and in_redis() + size <= most_recorded then
  call('HSET', errors_key(id), index, fault)
else
  size = 0 -- why it was rejected is not kept
end
charge_batch(id, item_cost + size)
call('ZADD', batchwork, due, id)
return 'ok'
