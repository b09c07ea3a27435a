-- delete_template forgets a tenant's template with all its revisions.
-- @arg name  of the template
-- @answer 1  it is gone
-- @answer 0  there is none

call('DEL', t .. 'template:' .. name)
return call('HDEL', t .. 'templates', name)
