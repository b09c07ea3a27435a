-- recheck_kept says when to look at a job's objects again, unless its record is gone: then that is due already.
-- @arg id   of the job
-- @arg due  when to look, ms
-- @answer ok  always

if call('EXISTS', t .. 'job:' .. id) == 1 then call('ZADD', t .. 'garbage', 'XX', due, id) end
return 'ok'
