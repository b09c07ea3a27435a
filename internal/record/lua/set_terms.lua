-- set_terms replaces a tenant's terms, if they are still those that the caller has read, and tells of a budget that is spent already.
-- @include budget
-- @arg revision   of the terms that the caller has read
-- @arg terms      as JSON
-- @arg now        ms
-- @arg month      of UTC, such as 2026-11
-- @number budget  what the tenant's jobs may cost in it, billionths; 0: any
-- @number warn_at what they have cost when budget.warning is told of
-- @arg budget_of  the tenant, the month and the budget, with blanks between
-- @arg warning    id of the event budget.warning of that budget
-- @arg exceeded   id of the event budget.exceeded
-- @number retention  how long these are kept, ms
-- @answer ok, made   they are replaced; the deliveries that were made
-- @answer stale      they have changed meanwhile
-- @answer missing    there is no such tenant

local held = call('HGET', t .. 'tenant', 'revision')
if not held then return {'missing'} end
if held ~= revision then return {'stale'} end
call('HSET', t .. 'tenant', 'terms', terms)
call('HINCRBY', t .. 'tenant', 'revision', 1)
local key = t .. 'usage:' .. month
local spent = budget > 0 and redis.pcall('HGET', key, 'nano')
spent = type(spent) == 'string' and tonumber(spent) or 0
return {'ok', tell_budget(key, spent, budget, warn_at, budget_of, warning, exceeded, now, now + retention)}
