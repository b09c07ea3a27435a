-- settle_delivery writes down what became of a request to a hook, and of one that has started a job, that no other does.
-- @const max_hook_deliveries  how many deliveries a hook remembers to show, about
-- @arg hook      id
-- @arg id        of the job, or ''
-- @arg started   1: the job is there
-- @arg delivery  as JSON
-- @rest first_key  names of the delivery, hashed
-- @answer ok  it is done

for i = first_key, #ARGV do
  local key = t .. 'hookseen:' .. ARGV[i]
  if started == '1' and call('GET', key) == id .. ' claimed' then
    local left = call('PTTL', key)
    if left > 0 then call('SET', key, id .. ' done', 'PX', left) end
  end
end
if call('HEXISTS', t .. 'hooks', hook) == 1 then
  call('XADD', t .. 'hooklog:' .. hook, 'MAXLEN', '~', max_hook_deliveries, '*', 'delivery', delivery)
end
return 'ok'
