-- set_secret stores a tenant's secret, in the place of one of that name.
-- @const max_secrets  how many secrets a tenant may have
-- @arg name    of the secret
-- @arg secret  sealed, as JSON
-- @answer ok    it is stored
-- @answer full  the tenant has as many as it may

if call('HEXISTS', t .. 'secrets', name) == 0 and call('HLEN', t .. 'secrets') >= max_secrets then return 'full' end
call('HSET', t .. 'secrets', name, secret)
return 'ok'
