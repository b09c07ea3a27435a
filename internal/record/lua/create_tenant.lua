-- create_tenant writes the record of a new tenant.
-- @arg now    ms
-- @arg terms  as JSON
-- @answer ok      it is there
-- @answer exists  it was there before

if call('EXISTS', t .. 'tenant') == 1 then return 'exists' end
call('HSET', t .. 'tenant', 'created', now, 'revision', 1, 'terms', terms)
return 'ok'
