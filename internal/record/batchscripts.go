package record

import "github.com/redis/go-redis/v9"

// endedField is before a status, in a batch's record: how many jobs ended in it.
const endedField = "n:"

// batchCode is what the scripts have in common that know batches
// (docs/adr/0008-batches.md), behind memory. KEYS[1] is what all keys of the tenant begin with.
var batchCode = deliveryCode + `
local call, t = redis.call, KEYS[1]
local batchwork = t .. 'batchwork'
local function batch_key(id) return t .. 'batch:' .. id end
local function items_key(id) return t .. 'batch:' .. id .. ':items' end
local function errors_key(id) return t .. 'batch:' .. id .. ':errors' end

-- charge_batch counts what a batch takes of Redis besides. Its record says how much that is, until its end.
local function charge_batch(id, bytes)
  charge(bytes)
  call('HINCRBY', batch_key(id), 'charge', bytes)
end

local none = '\0\0\0\0\0\0\0\0'

-- fingerprints of a batch's jobs, by index; none where nothing is known.
local function fingerprints(id, first, last)
  local text, list = call('GETRANGE', items_key(id), first * 8, last * 8 + 7), {}
  for i = first, last do
    local f = string.sub(text, (i - first) * 8 + 1, (i - first) * 8 + 8)
    list[i] = f == '' and none or f
  end
  return list
end

-- compare answers what is known of a job: nothing, that it is there, or that another is in its place.
local function compare(held, fingerprint)
  if held == none then return nil end
  local function bare(f) return string.char(string.byte(f) % 128) .. string.sub(f, 2) end -- but that it was rejected
  return bare(held) == bare(fingerprint) and 'there' or 'conflict'
end

local function note(id, first, prints) call('SETRANGE', items_key(id), first * 8, prints) end

-- settle ends a batch that is sealed and whose jobs have all ended, and answers what
-- add_delivery does, or nothing.
local function settle(id, now)
  local b = call('HMGET', batch_key(id), 'state', 'jobs', 'ended', 'cancel', 'callback', 'delivery', 'retention', 'created', 'charge', 'rejected')
  if b[1] ~= 'running' or b[2] ~= b[3] then return '' end
  call('HSET', batch_key(id), 'state', b[4] and 'canceled' or 'completed', 'finished', now)
  local made = b[6] ~= '' and add_delivery(b[6], now, 'batch', id, 'url', b[5], 'event', 'batch.completed') or ''
  call('ZREM', batchwork, id)
  local empty = b[2] == '0' and b[10] == '0'
  local life = empty and math.min(b[7], 3600000) or b[7] -- one without a job has nothing to keep
  for _, key in ipairs({batch_key(id), items_key(id), errors_key(id)}) do call('PEXPIRE', key, life) end
  call('HSET', t .. 'kept', id, '0 ' .. b[8] .. ' ' .. (b[9] or 0))
  call('ZADD', t .. 'garbage', now + life + expired_delay, id)
  call('PUBLISH', 'gb:done', id)
  return made
end

-- renew puts off that a batch is given up which is still being received.
local function renew(id, due)
  if call('HGET', batch_key(id), 'state') == 'receiving' then call('ZADD', batchwork, due, id) end
end

-- count_ended counts a job of a batch that has just ended, and maybe the batch with it.
local function count_ended(id, state, now)
  if call('EXISTS', batch_key(id)) == 0 then return '' end
  call('HINCRBY', batch_key(id), 'ended', 1)
  call('HINCRBY', batch_key(id), 'n:' .. state, 1)
  return settle(id, now)
end
`

var openBatchScript = redis.NewScript(memory + batchCode + `
-- ARGV: id, now, due, key or '', hash of it, ms that it is kept, hash of the options, what it takes of Redis, most bytes recorded,
-- then field, value, …
local id, now, size = ARGV[1], ARGV[2], tonumber(ARGV[8])
if ARGV[4] ~= '' then
  local idem = t .. 'batchidem:' .. ARGV[5]
  local held = call('GET', idem)
  local options = held and call('HGET', batch_key(held), 'options')
  if options then
    if options ~= ARGV[7] then return 'conflict' end
    renew(held, ARGV[3])
    return held
  end
  if held then return 'gone ' .. held end
end
if in_redis(forget_keys(now)) + size + (ARGV[4] ~= '' and key_cost or 0) > tonumber(ARGV[9]) then return 'bytes_recorded' end
if ARGV[4] ~= '' then remember(t .. 'batchidem:' .. ARGV[5], id, now, ARGV[6]) end
call('HSET', batch_key(id), 'state', 'receiving', 'created', now, 'jobs', 0, 'rejected', 0, 'ended', 0, 'options', ARGV[7], unpack(ARGV, 10))
charge_batch(id, size)
call('ZADD', batchwork, ARGV[3], id)
call('ZADD', t .. 'batches', 0, now .. ':' .. id)
return id`)

var renewBatchScript = redis.NewScript(memory + batchCode + `
-- ARGV: batch, when it is given up
renew(ARGV[1], ARGV[2])
return 'ok'`)

var rejectScript = redis.NewScript(memory + batchCode + `
-- ARGV: batch, when it is given up, index, fingerprint, error, most errors, most bytes recorded
local id, index = ARGV[1], tonumber(ARGV[3])
local state = call('HGET', batch_key(id), 'state')
if not state then return 'missing' end
local word = compare(fingerprints(id, index, index)[index], ARGV[4])
if word then return word end
if state ~= 'receiving' then return 'sealed' end
note(id, index, ARGV[4])
call('HINCRBY', batch_key(id), 'rejected', 1)
local size = fault_cost + text_cost(#ARGV[5])
if call('HLEN', errors_key(id)) < tonumber(ARGV[6]) and in_redis() + size <= tonumber(ARGV[7]) then
  call('HSET', errors_key(id), index, ARGV[5])
else
  size = 0 -- why it was rejected is not kept
end
charge_batch(id, item_cost + size)
call('ZADD', batchwork, ARGV[2], id)
return 'ok'`)

var sealBatchScript = redis.NewScript(memory + batchCode + `
-- ARGV: id, now, jobs sent
local id = ARGV[1]
local b = call('HMGET', batch_key(id), 'state', 'jobs', 'rejected')
if not b[1] then return 'missing' end
if tonumber(b[2]) + tonumber(b[3]) ~= tonumber(ARGV[3]) then return 'conflict' end
if b[1] ~= 'receiving' then return 'ok' end
call('HSET', batch_key(id), 'state', 'running', 'sealed', ARGV[2])
call('ZREM', batchwork, id)
return 'ok ' .. settle(id, ARGV[2])`)

var cancelBatchScript = redis.NewScript(memory + batchCode + `
-- ARGV: id, now, when to look again, '' or until when it has to be due
local id = ARGV[1]
local state = call('HGET', batch_key(id), 'state')
if not state then return 'missing' end
if ARGV[4] ~= '' and tonumber(call('ZSCORE', batchwork, id) or 0) > tonumber(ARGV[4]) then return 'renewed' end
if state == 'completed' or state == 'canceled' then return state end
if state == 'receiving' then call('HSET', batch_key(id), 'state', 'running', 'sealed', ARGV[2]) end
call('HSET', batch_key(id), 'cancel', 1)
call('ZADD', batchwork, ARGV[3], id)
return 'ok ' .. settle(id, ARGV[2])`)
