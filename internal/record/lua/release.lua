-- release moves jobs whose time has come to the backlog, and jobs of the backlog into the window, 500 of each at most. Jobs of a pool in
-- which no worker lives go back to their backlog: they are in the way of nobody's quota.
-- @include queue
-- @arg now     ms
-- @arg due     when the sweeper looks for their tasks, ms
-- @arg window  how many jobs of the tenant may be released or running
-- @answer released  id, epoch, priority and placement of each

for _, id in ipairs(call('ZRANGE', later, '-inf', now, 'BYSCORE', 'LIMIT', 0, 500)) do
  call('ZREM', later, id)
  local state, priority, pool = unpack(call('HMGET', job(id), 'state', 'priority', 'placement'))
  if state == 'queued' then line_up_one(id, priority, pool) end
end

-- look_after puts right what is said to be released of a pool: a worker that was taken over may have made jobs vanish.
local function look_after(pool, serves)
  for _, id in ipairs(call('SRANDMEMBER', placed(pool), 100)) do
    local is_open = call('ZSCORE', open, id)
    if not is_open and call('HEXISTS', running, id) == 0 then
      call('SREM', placed(pool), id)
    elseif is_open and not serves then
      local state, priority = unpack(call('HMGET', job(id), 'state', 'priority'))
      call('ZREM', open, id)
      call('SREM', placed(pool), id)
      if state == 'queued' then
        call('HINCRBY', job(id), 'epoch', 1) -- the task that it has in the pool's queue is not to start it out of its window
        call('ZADD', backlog_of(priority, pool), 0, id)
        call('ZADD', in_pools, 0, id)
      end
    end
  end
end

local w = shares()
if w then count_in(w, call('ZCARD', open) + call('HLEN', running)) end
for _, pool in ipairs(w and w.order or {}) do
  if left_in(w, pool) <= 0 then look_after(pool, w.pools[pool] > 0) end
end
return release(window, now, due, 500)
