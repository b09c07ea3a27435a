-- add_token adds a token to a tenant's record.
-- @const max_tokens  how many tokens a tenant may have
-- @arg field  token:<id>
-- @arg token  as JSON, with its hash
-- @answer ok       it is there
-- @answer full     the tenant has as many as it may
-- @answer taken    the tenant has another of that id
-- @answer missing  there is no such tenant

if not call('HGET', t .. 'tenant', 'revision') then return 'missing' end
local tokens = 0
for _, name in ipairs(call('HKEYS', t .. 'tenant')) do
  if string.sub(name, 1, 6) == 'token:' then tokens = tokens + 1 end
end
if tokens >= max_tokens then return 'full' end
if call('HSETNX', t .. 'tenant', field, token) == 0 then return 'taken' end
return 'ok'
