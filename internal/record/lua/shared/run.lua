-- Runs of pipelines (docs/adr/0037-pipelines.md). What a worker has to write is apart from what it has no business with: its items.

local runwork = t .. 'runwork'
local function run_key(id) return t .. 'run:' .. id end
local function run_items(id) return t .. 'runitems:' .. id end

-- look_at has a run looked at, at once if anybody listens. Its score is no time: clocks of two hosts differ.
local function look_at(id)
  call('ZADD', runwork, 0, id)
  call('PUBLISH', 'gb:run', id)
end

-- note_end notes that a job of a run has ended, and that somebody has to see what follows. It does so only for the newest try.
local function note_end(run, item, try, status)
  local held, before = string.match(call('HGET', run_items(run), item) or '', '^(%d+) (%S+)$')
  if held ~= try or before ~= 'queued' then return end
  call('HSET', run_items(run), item, try .. ' ' .. status)
  call('HINCRBY', run_items(run), 'rev', 1)
  look_at(run)
end
