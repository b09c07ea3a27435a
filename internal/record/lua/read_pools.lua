-- read_pools reads what a tenant has in each of its pools. It writes nothing, and what a worker has spoiled counts as waiting or as nothing held,
-- except for the list of pools and the terms.
-- @include queue
-- @const most_read    how many pools are read at most
-- @const share_renew  how long the windows hold at least that need not be written anew, ms
-- @number old         ms: a pool that was last used by then is forgotten, unless something waits
-- @answer terms common waits made [placement score backlogged held]…  the tenant's terms; whether it has a backlog of jobs without a placement;
--                 whether any job waits for its time or for approval, where a pool is old; which windows are there, '' if none, '?' for others; and of each pool
--                 its placement, when it was used last, whether it has a backlog, and how many jobs of it are released or run

local function number_of(command, key)
  local n = redis.pcall(command, key)
  return type(n) == 'number' and n
end
local made = call('PTTL', windows) > share_renew and redis.pcall('HGET', windows, 'made')
local fresh = type(made) == 'string'
if not fresh then made = call('EXISTS', windows) == 1 and '?' or '' end
local answer = {call('HGET', t .. 'tenant', 'terms'), is_backlogged() and 1 or 0, 0, made}
-- Most tenants do nothing at the moment: these look into no pool, but for once in a while, should a worker have spoiled what all pools have together.
local idle = fresh and number_of('ZCARD', in_pools) == 0 and number_of('ZCARD', open) == 0 and number_of('HLEN', running) == 0
local pools, lapsed = call('ZRANGE', t .. 'pools', 0, most_read - 1, 'WITHSCORES'), false
for i = 1, #pools, 2 do
  local pool, score = pools[i], pools[i + 1]
  local backlogged = not idle and is_backlogged(pool) and 1 or 0
  local held = not idle and number_of('SCARD', placed(pool)) or 0
  lapsed = lapsed or tonumber(score) <= old
  for _, v in ipairs({pool, score, backlogged, held}) do answer[#answer + 1] = v end
end
if lapsed and (number_of('ZCARD', later) ~= 0 or number_of('ZCARD', approvals) ~= 0) then answer[3] = 1 end
return answer
