-- settle_run says that nothing is to be done for a run until something ends in it.
-- @include run
-- @arg id     of the run
-- @arg rev    of its items, as the caller has read them
-- @arg again  when to look at it in any case, ms
-- @answer ok     it is looked at again then, or as something ends
-- @answer stale  something has ended meanwhile

if items_rev(id) ~= rev then return 'stale' end
call('ZADD', runwork, 'XX', again, id)
return 'ok'
