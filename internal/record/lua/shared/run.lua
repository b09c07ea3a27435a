-- Runs of pipelines (docs/adr/0037-pipelines.md). What a worker has to write is apart from what it has no business with: its items.

local runwork = t .. 'runwork'
local function run_key(id) return t .. 'run:' .. id end
local function run_items(id) return t .. 'runitems:' .. id end

-- look_at has a run looked at, at once if anybody listens. Its score is no time: clocks of two hosts differ.
local function look_at(id)
  local put = redis.pcall('ZADD', runwork, 0, id)
  if type(put) == 'table' then
    if string.find(put.err or '', 'WRONGTYPE', 1, true) then call('DEL', runwork) end -- a worker has made another type of it: the sweeper finds the other runs
    call('ZADD', runwork, 0, id)
  end
  call('PUBLISH', 'gb:run', id)
end

-- items_changed has those think again who have read a run's items. A worker may have written anything there: no step of a run fails for it.
local function items_changed(run)
  local rev = tonumber(call('HGET', run_items(run), 'rev') or 0)
  if not rev or rev ~= rev or rev < 0 or rev >= 2^53 then rev = 0 end
  call('HSET', run_items(run), 'rev', string.format('%.0f', rev + 1))
end

-- items_rev is what items_changed changes, '' where a worker has removed it.
local function items_rev(run) return call('HGET', run_items(run), 'rev') or '' end

-- note_end notes that a job of a run has ended, and that somebody has to see what follows. It does so only for the newest try.
local function note_end(run, item, try, status)
  local noted = redis.pcall('HGET', run_items(run), item)
  if type(noted) == 'table' then -- a worker has made another type of it: jobs that are missing there are looked for
    call('DEL', run_items(run))
    items_changed(run)
    return look_at(run)
  end
  local held, before = string.match(noted or '', '^(%d+) (%S+)$')
  if held ~= try or before ~= 'queued' then return end
  call('HSET', run_items(run), item, try .. ' ' .. status)
  items_changed(run)
  look_at(run)
end
