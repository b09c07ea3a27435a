-- create writes the records of new jobs of one tenant, some 100 at most, and releases those that the window has room for. The
-- others wait in the backlog, or for their time. A job beyond the tenant's quotas, or that is there already, leaves nothing.
-- @include queue
-- @include batch
-- @include run
-- @include delivery
-- @const item_cost  what a job's fingerprint in its batch takes, bytes
-- @const run_item_cost  what is known of a job in its run takes, bytes
-- @const key_life   how long an idempotency key is kept, ms
-- @const graded_slack  how much longer than a job it is known, after its retention, that a problem graded it, ms
-- @const graded_cost   what it takes to know that, bytes
-- @const most_graded   of how many jobs that is known, for each problem
-- @const most_pools    how many placements a tenant's jobs and sessions may have within a day
-- @arg now               ms
-- @arg due               when the sweeper looks for the tasks of jobs that are released here, ms
-- @arg batch             whose jobs they are, or ''
-- @arg batch_due         when the batch is given up if no more of it comes, ms
-- @arg run               whose jobs they are, or ''
-- @number first          index of the first of a batch's jobs
-- @number last           index of the last
-- @number window         how many jobs of the tenant may be released or running
-- @number most_open      how many released jobs may wait, 0: any
-- @number most_jobs      quota jobs_queued, 0: any
-- @number most_bytes     quota bytes_queued, 0: any
-- @number most_recorded  quota bytes_recorded
-- @rest first_job        of each job: id, bytes of its spec, priority, run_at or '', deadline or '' (ms), index and fingerprint (a
--   batch's), step and index with : between or '' and try (a run's), until when it is held or '' (ms), id of the event that tells of that, hash of its idempotency key or '', what was asked for under the key, digest of its problem or '', its placement or '', its retention (ms), bytes that its record takes, n, n fields and values
-- @answer words, released, told  a word for each job, which are released (id, epoch, priority, placement), and what tell answered for those that are held. The words: ok, exists, jobs_queued,
--   bytes_queued, bytes_recorded, placements; of a key "again ID", "gone ID", conflict; of a batch there, conflict, sealed, missing; of a run there, over

local recorded_before, recorded_more, charged = in_redis(forget_keys(now)), 0, 0
local batch_state = batch ~= '' and call('HGET', batch_key(batch), 'state')
local prints, in_batch = batch ~= '' and fingerprints(batch, first, last), 0
local opened = call('ZCARD', open)
local w = shares()
local left, backlogged = room(window, opened, w), is_backlogged()
if most_open > 0 then left = math.min(left, most_open - opened) end
local in_run, noted_in_run = 0, false
local jobs, bytes_queued = 0, 0
if most_jobs > 0 or most_bytes > 0 then
  jobs = waiting(opened)
  if jobs == 0 then call('DEL', queued) end -- a worker may spoil the count: it ends with the last job
  bytes_queued = sum(queued)
end
local words, released, told, bytes_added = {}, {}, {}, 0
-- What sorted sets get is gathered, and written once: a job is then little more than its record.
local listed, lined, in_line = {}, {}, 0

-- Pools that jobs are for, each with whether others wait there already.
local pools, lined_up = t .. 'pools', {}
local all_left = left_in_all(w, opened + call('HLEN', running))

local function pool_left(pool)
  if not w then return 0 end
  if lined_up[pool] == nil then lined_up[pool] = is_backlogged(pool) end
  return lined_up[pool] and 0 or math.min(all_left, left_in(w, pool))
end

-- opens counts a job that is released, in a pool or in ''.
local function opens(pool)
  left, all_left = pool == '' and left - 1 or left, all_left - 1
  if w then
    add_to(w, pool, 1)
    left = math.min(left, left_in(w, ''), all_left)
  end
end

-- enter puts a job at the end of its backlog.
local function enter(id, priority, pool)
  in_line = in_line + 1
  local key = backlog(priority, pool)
  for _, list in ipairs(pool and {key, in_pools} or {key}) do
    lined[list] = lined[list] or {}
    table.insert(lined[list], in_line)
    table.insert(lined[list], id)
  end
end

local function idem(key) return t .. 'idem:' .. key end

-- named answers what became of the job that the key began, or nothing for a new key.
local function named(key, asked)
  local id, before = string.match(call('GET', idem(key)) or '', '^(%S+) (%S+)$')
  if not id then return nil end
  if before ~= asked then return 'conflict' end
  return (call('EXISTS', job(id)) == 1 and 'again ' or 'gone ') .. id
end

-- of_run answers nothing for a job that the run is to have, "there" for one that it has or had.
local over = run ~= '' and (call('EXISTS', run_items(run)) == 0 or call('HGET', run_items(run), 'over'))
local function of_run(item, try)
  if tonumber(string.match(call('HGET', run_items(run), item) or '', '^%d+') or 0) >= tonumber(try) then return 'there' end
  return over and 'over' or nil
end

-- graded notes until when it is of use to know that the problem grades the job. What is of none any more goes, and what would be first to
-- go where there is too much. The notes are the problem's: they go with it, at the latest.
local function graded(problem, id, until_ms)
  if call('HEXISTS', t .. 'problems', problem) == 0 then return end -- it was deleted a moment ago
  local key = t .. 'graded:' .. problem
  local gone = call('ZREMRANGEBYSCORE', key, '-inf', now)
  local more = call('ZADD', key, until_ms, id)
  gone = gone + call('ZREMRANGEBYRANK', key, 0, -(most_graded + 1))
  charged = charged + (more - gone) * graded_cost
  recorded_more = recorded_more + (more - gone) * graded_cost
end

local function create(id, bytes, priority, run_at, deadline, index, fingerprint, item, try, hold, held_event, key, asked, problem, pool, retention, size, from, to)
  if key ~= '' then
    local word = named(key, asked)
    if word then return word end
  end
  if batch ~= '' then
    local word = compare(prints[index], fingerprint)
    if word then return word end
    if batch_state ~= 'receiving' then return batch_state and 'sealed' or 'missing' end
  elseif run ~= '' then
    local word = of_run(item, try)
    if word then return word end
    if call('EXISTS', job(id)) == 1 then -- a worker has forgotten it in the run
      call('HSET', run_items(run), item, try .. ' queued')
      noted_in_run = true
      return 'there'
    end
  elseif call('EXISTS', job(id)) == 1 then
    return 'exists'
  end
  if most_jobs > 0 and jobs >= most_jobs then return 'jobs_queued' end
  if most_bytes > 0 and bytes_queued + bytes_added + bytes > most_bytes then return 'bytes_queued' end
  local takes = size + (problem ~= '' and graded_cost or 0) + (key ~= '' and key_cost or 0) + (batch ~= '' and item_cost or 0) + (run ~= '' and run_item_cost or 0)
  if recorded_before + recorded_more + takes > most_recorded then return 'bytes_recorded' end
  if pool then
    if not call('ZSCORE', pools, pool) and call('ZCARD', pools) >= most_pools then return 'placements' end
    call('ZADD', pools, now, pool)
  end
  jobs, bytes_added, recorded_more, charged = jobs + 1, bytes_added + bytes, recorded_more + takes - (problem ~= '' and graded_cost or 0), charged + size
  call('HSET', job(id), 'state', hold == '' and 'queued' or 'held', 'epoch', 1, 'attempts', 0, 'created', now, 'bytes', bytes, 'charge', size, 'priority', priority, unpack(ARGV, from, to))
  listed[#listed + 1] = 0
  listed[#listed + 1] = now .. ':' .. id
  if key ~= '' then remember(idem(key), id .. ' ' .. asked, now, key_life) end
  if batch ~= '' then
    prints[index] = fingerprint
    in_batch = in_batch + 1
  end
  if run ~= '' then
    call('HSET', run_items(run), item, try .. ' queued')
    noted_in_run = true
    if try == '1' then in_run = in_run + 1 end -- one item has all its tries
  end
  if deadline ~= '' then call('ZADD', t .. 'deadline', deadline, id) end
  if problem ~= '' then graded(problem, id, math.max(now, tonumber(run_at) or 0) + retention + graded_slack) end
  if hold ~= '' then
    call('ZADD', approvals, hold, id)
    told[#told + 1] = tell('job.held', nil, nil, held_event, now, 'news', 'held ' .. id, 'expires', hold)
  elseif run_at ~= '' and tonumber(run_at) > tonumber(now) then
    call('ZADD', later, run_at, id)
  elseif pool and pool_left(pool) > 0 then
    opens(pool)
    released[#released + 1] = open_up(id, '1', priority, now, due, pool)
  elseif not pool and left > 0 and not backlogged then
    opens('')
    released[#released + 1] = open_up(id, '1', priority, now, due)
  else
    enter(id, priority, pool or nil)
  end
  return 'ok'
end

local i = first_job
while ARGV[i] do
  local id, bytes, priority, run_at, deadline, index, fingerprint, item, try, hold, held_event, key, asked, problem, pool, retention, size, n = unpack(ARGV, i, i + 17)
  local fields = i + 18
  i = fields + n
  words[#words + 1] = create(id, tonumber(bytes), priority, run_at, deadline, tonumber(index), fingerprint, item, try, hold, held_event, key, asked, problem, pool ~= '' and pool, tonumber(retention), tonumber(size), fields, i - 1)
end
charge(charged)
if #listed > 0 then call('ZADD', t .. 'jobs', unpack(listed)) end
line_up(lined, in_line)
if bytes_added > 0 then count(queued, bytes_added) end
if in_run > 0 or noted_in_run then items_changed(run) end -- nobody ends a run who hasn't seen them
if in_run > 0 then
  call('HINCRBY', run_key(run), 'charge', in_run * run_item_cost)
  charge(in_run * run_item_cost)
end
if in_batch > 0 then
  note(batch, first, table.concat(prints, '', first, last))
  call('HINCRBY', batch_key(batch), 'jobs', in_batch)
  charge_batch(batch, in_batch * item_cost)
  call('ZADD', batchwork, batch_due, batch)
end
if left > 0 and backlogged then -- the window has grown
  for _, one in ipairs(release(window, now, due, left)) do released[#released + 1] = one end
end
return {words, released, told}
