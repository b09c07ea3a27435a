-- Batches: their records, what is known of each of their jobs, and their end (docs/adr/0008-batches.md).
-- @include memory
-- @include delivery
-- @const expired_delay  how long after a record expires its objects and counts go, ms

local batchwork = t .. 'batchwork'
local function batch_key(id) return t .. 'batch:' .. id end
local function items_key(id) return t .. 'batch:' .. id .. ':items' end
local function errors_key(id) return t .. 'batch:' .. id .. ':errors' end

-- charge_batch counts what a batch takes of Redis besides. The record says how much that is, until the batch is forgotten.
local function charge_batch(id, bytes)
  charge(bytes)
  call('HINCRBY', batch_key(id), 'charge', bytes)
end

local unknown = '\0\0\0\0\0\0\0\0'

-- fingerprints answers those of a batch's jobs by index, unknown where nothing was sent yet.
local function fingerprints(id, first, last)
  local text, list = call('GETRANGE', items_key(id), first * 8, last * 8 + 7), {}
  for i = first, last do
    local f = string.sub(text, (i - first) * 8 + 1, (i - first) * 8 + 8)
    list[i] = f == '' and unknown or f
  end
  return list
end

-- compare answers nothing for a new job, "there" for one that was sent before, "conflict" for another in its place.
local function compare(held, fingerprint)
  if held == unknown then return nil end
  local function bare(f) return string.char(string.byte(f) % 128) .. string.sub(f, 2) end -- without the bit for rejected
  return bare(held) == bare(fingerprint) and 'there' or 'conflict'
end

local function note(id, first, prints) call('SETRANGE', items_key(id), first * 8, prints) end

-- settle ends a batch that is sealed and whose jobs have all ended. It answers what tell does, or ''.
local function settle(id, now)
  local state, jobs, ended, canceled, callback, delivery, message, retention, created, charged, rejected = unpack(call('HMGET', batch_key(id),
    'state', 'jobs', 'ended', 'cancel', 'callback', 'delivery', 'message', 'retention', 'created', 'charge', 'rejected'))
  if state ~= 'running' or jobs ~= ended then return '' end
  call('HSET', batch_key(id), 'state', canceled and 'canceled' or 'completed', 'finished', now)
  local made = tell('batch.completed', callback, delivery, message, now, 'batch', id)
  call('ZREM', batchwork, id)
  local empty = jobs == '0' and rejected == '0'
  local life = empty and math.min(retention, 3600000) or retention -- an hour: there is nothing to look at
  for _, key in ipairs({batch_key(id), items_key(id), errors_key(id)}) do call('PEXPIRE', key, life) end
  call('HSET', t .. 'kept', id, '0 ' .. created .. ' ' .. (charged or 0))
  call('ZADD', t .. 'garbage', now + life + expired_delay, id)
  call('PUBLISH', 'gb:done', id)
  return made
end

-- renew puts off giving up a batch that is still being received.
local function renew(id, due)
  if call('HGET', batch_key(id), 'state') == 'receiving' then call('ZADD', batchwork, due, id) end
end

-- count_ended counts a job of a batch that has just ended, and ends the batch with its last one.
local function count_ended(id, status, now)
  if call('EXISTS', batch_key(id)) == 0 then return '' end
  call('HINCRBY', batch_key(id), 'ended', 1)
  call('HINCRBY', batch_key(id), 'n:' .. status, 1)
  return settle(id, now)
end
