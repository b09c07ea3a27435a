-- renew_batch says that a batch is still being sent.
-- @include batch
-- @arg id   of the batch
-- @arg due  when it is given up if nothing of it comes, ms
-- @answer ok  always

renew(id, due)
return 'ok'
