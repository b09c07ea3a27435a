-- set_terms replaces a tenant's terms, if they are still those that the caller has read.
-- @arg revision  of the terms that the caller has read
-- @arg terms     as JSON
-- @answer ok       they are replaced
-- @answer stale    they have changed meanwhile
-- @answer missing  there is no such tenant

local held = call('HGET', t .. 'tenant', 'revision')
if not held then return 'missing' end
if held ~= revision then return 'stale' end
call('HSET', t .. 'tenant', 'terms', terms)
call('HINCRBY', t .. 'tenant', 'revision', 1)
return 'ok'
