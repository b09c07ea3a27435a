-- claim_delivery gives a request to a hook its job's id, or finds that one of its keys was seen before. The keys count as
-- idempotency keys do.
-- @include memory
-- @const hook_memory  how long a hook knows a delivery again, ms
-- @arg id                of the job that a new delivery starts, or '' to look only whether it is known
-- @number now            ms
-- @number most_recorded  quota bytes_recorded
-- @rest first_key        names of the delivery, hashed
-- @answer state, job     new, with the id; claimed: its job may not have been created yet; or done; and which job
-- @answer bytes_recorded  there is no room for the keys

local keys = {}
for i = first_key, #ARGV do keys[#keys + 1] = t .. 'hookseen:' .. ARGV[i] end
for _, key in ipairs(keys) do
  local before, state = string.match(call('GET', key) or '', '^(%S+) (%S+)$')
  if before then return {state, before} end
end
if id == '' then return {'new', ''} end
if in_redis(forget_keys(now)) + #keys * key_cost > most_recorded then return {'bytes_recorded'} end
for _, key in ipairs(keys) do remember(key, id .. ' claimed', now, hook_memory) end
return {'new', id}
