package record

import "github.com/redis/go-redis/v9"

// Each script takes the time from its caller and answers a word (or a word and
// values); docs/adr/0001-record.md lists preconditions and effects. KEYS[1] of those that
// begin with queue is what all keys of the tenant begin with: they share its slot.

var createScript = redis.NewScript(queue + memory + batchCode + keyed + `
-- ARGV: now, due, window, most jobs, most bytes (0: any), batch or '', when it is given up, ms that idempotency keys are kept,
-- first and last index of a batch's jobs, most bytes recorded, most released jobs that wait (0: any),
-- and of each job: id, bytes, priority, run_at, deadline, index and fingerprint (of a batch's), idempotency key's hash or '',
-- what was asked for under it, what it takes of Redis, n, then n fields and values
local now, due, window, most_jobs, most_bytes, batch = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local first, last, most_recorded = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local before, more, charged = in_redis(forget_keys(now)), 0, 0
local batch_state = batch ~= '' and call('HGET', batch_key(batch), 'state')
local prints, in_batch = batch ~= '' and fingerprints(batch, first, last), 0
local opened = call('ZCARD', open)
local left, backlogged = window - opened - call('HLEN', running), is_backlogged()
if ARGV[12] ~= '0' then left = math.min(left, ARGV[12] - opened) end
local jobs, held, added = 0, 0, 0
if most_jobs > 0 or most_bytes > 0 then
  jobs = waiting(opened)
  if jobs == 0 then call('DEL', queued) end -- heals what a worker of before these bytes were counted left
  held = sum(queued)
end
local words, released = {}, {}
-- What sorted sets get is gathered, and written once: a job is then little more than its record.
local listed, lined, in_line = {}, {high = {}, normal = {}, low = {}}, 0
local function create(id, bytes, priority, run_at, deadline, index, fingerprint, key, asked, size, from, to)
  if key ~= '' then
    local word = named(key, asked)
    if word then return word end
  end
  if batch ~= '' then
    local word = compare(prints[index], fingerprint)
    if word then return word end
    if batch_state ~= 'receiving' then return batch_state and 'sealed' or 'missing' end
  elseif call('EXISTS', job(id)) == 1 then
    return 'exists'
  end
  if most_jobs > 0 and jobs >= most_jobs then return 'jobs_queued' end
  if most_bytes > 0 and held + added + bytes > most_bytes then return 'bytes_queued' end
  local count = size + (key ~= '' and key_cost or 0) + (batch ~= '' and item_cost or 0)
  if before + more + count > most_recorded then return 'bytes_recorded' end
  jobs, added, more, charged = jobs + 1, added + bytes, more + count, charged + size
  call('HSET', job(id), 'state', 'queued', 'epoch', 1, 'attempts', 0, 'created', now, 'bytes', bytes, 'charge', size, 'priority', priority, unpack(ARGV, from, to))
  listed[#listed + 1] = 0
  listed[#listed + 1] = now .. ':' .. id
  if key ~= '' then remember(idem(key), id .. ' ' .. asked, now, ARGV[8]) end
  if batch ~= '' then
    prints[index] = fingerprint
    in_batch = in_batch + 1
  end
  if deadline ~= '' then call('ZADD', t .. 'deadline', deadline, id) end
  if run_at ~= '' and tonumber(run_at) > tonumber(now) then
    call('ZADD', later, run_at, id)
  elseif left > 0 and not backlogged then
    left = left - 1
    released[#released + 1] = open_up(id, '1', priority, now, due)
  else
    in_line = in_line + 1
    table.insert(lined[priority], in_line)
    table.insert(lined[priority], id)
  end
  return 'ok'
end
local i = 13
while ARGV[i] do
  local n = tonumber(ARGV[i + 10])
  words[#words + 1] = create(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], tonumber(ARGV[i + 5]), ARGV[i + 6],
    ARGV[i + 7], ARGV[i + 8], tonumber(ARGV[i + 9]), i + 11, i + 10 + n)
  i = i + 11 + n
end
charge(charged)
if #listed > 0 then call('ZADD', t .. 'jobs', unpack(listed)) end
line_up(lined, in_line)
if added > 0 then count(queued, added) end
if in_batch > 0 then
  note(batch, first, table.concat(prints, '', first, last))
  call('HINCRBY', batch_key(batch), 'jobs', in_batch)
  charge_batch(batch, in_batch * item_cost)
  call('ZADD', batchwork, ARGV[7], batch)
end
if left > 0 and backlogged then released = release(window, now, due, left) end -- the window has grown
return {words, released}`)

var startScript = redis.NewScript(queue + `
local function offered(name)
  for i = 6, #ARGV do
    if ARGV[i] == name then return true end
  end
  return not ARGV[6]
end
-- ARGV: id, epoch, worker, now, newest version known, then names of runtimes and images that the worker offers; without any it takes all
local id = ARGV[1]
local r = call('HMGET', job(id), 'state', 'epoch', 'version', 'worker', 'image', 'runtime', 'priority')
if not r[1] then return {'missing'} end
if r[1] ~= 'queued' and r[1] ~= 'running' then return {'ended'} end
if r[2] ~= ARGV[2] then return {'stale'} end
local again = r[1] == 'running'
if again and r[4] ~= ARGV[3] then return {'taken'} end
if tonumber(r[3]) > tonumber(ARGV[5]) then return {'newer'} end
if not again and not offered(r[5] or r[6]) then return {'not offered', r[5] or r[6], r[7] or 'normal'} end
call('HSET', job(id), 'state', 'running', 'worker', ARGV[3], 'started', ARGV[4])
if not again then
  call('HINCRBY', job(id), 'attempts', 1)
  unqueue(id)
end
call('HSET', running, id, ARGV[2] .. ' ' .. ARGV[3])
return {'ok', call('HGETALL', job(id))}`)

// finish ends a job, and releases the next one of its tenant; end and cancel share it. That is one at
// most: a window that has grown is the release pass's to fill, which knows how many share the queue.
var finish = queue + memory + lending + keep + batchCode + `
-- ARGV: id, now, state, result, result_ref, ttl ms (of a record that doesn't say), delivery id, event, dirty, how long
-- after ttl objects go, ms, how long the result is kept beside result.json, ms, bytes of the objects, window, due, most bytes lent
local a = {
  id = ARGV[1], now = ARGV[2], state = ARGV[3], result = ARGV[4], result_ref = ARGV[5], ttl = ARGV[6], delivery = ARGV[7], event = ARGV[8],
  dirty = ARGV[9], late = ARGV[10], cached = ARGV[11], bytes = ARGV[12], window = ARGV[13], due = ARGV[14], lend = ARGV[15],
}
local function finish()
  local r = call('HMGET', job(a.id), 'epoch', 'callback', 'spec_ref', 'state', 'retention', 'created', 'batch', 'charge')
  local ttl = r[5] or a.ttl
  if r[4] == 'queued' then unqueue(a.id) end
  call('HSET', job(a.id), 'state', a.state, 'finished', a.now, 'result_ref', a.result_ref)
  keep(a, ttl, r[6], tonumber(r[8] or 0))
  call('HDEL', job(a.id), 'spec', 'spec_ref')
  call('HDEL', running, a.id)
  call('ZREM', t .. 'deadline', a.id)
  local made = {}
  if r[2] and r[2] ~= '' then
    made[1] = add_delivery(a.delivery, a.now, 'job', a.id, 'url', r[2], 'event', a.event, 'expires', string.format('%.0f', a.now + ttl))
  end
  if a.dirty == '1' or tonumber(r[1]) > 1 or r[3] then
    call('ZADD', t .. 'garbage', a.now, a.id)
  else
    call('ZADD', t .. 'garbage', a.now + ttl + a.late, a.id)
  end
  call('PEXPIRE', job(a.id), ttl)
  local watched = tonumber(call('HGET', job(a.id), 'watched') or 0) > tonumber(a.now)
  local life = watched and ` + eventLife + ` or ` + unwatchedLife + `
  if call('PEXPIRE', t .. 'events:' .. a.id, life) == 1 then call('ZADD', lent, 'XX', a.now + life, 'events:' .. a.id) end
  call('PUBLISH', 'gb:done', a.id)
  local told = r[7] and count_ended(r[7], a.state, a.now) or ''
  if told ~= '' then made[#made + 1] = told end
  return {'ok', release(a.window, a.now, a.due, 1), made}
end
local state = call('HGET', job(a.id), 'state')
if not state then return {'missing'} end
if state ~= 'queued' and state ~= 'running' then return {'ended'} end
`

var endScript = redis.NewScript(finish + `
-- ARGV[16]: epoch, ARGV[17]: worker
local r = call('HMGET', job(a.id), 'epoch', 'worker')
if r[1] ~= ARGV[16] or (state == 'running' and r[2] ~= ARGV[17]) then return {'stale'} end
return finish()`)

var cancelScript = redis.NewScript(finish + `
-- ARGV[16]: why, if there is a reason
if state == 'running' then
  call('HSET', job(a.id), 'cancel', ARGV[16] or 1)
  call('PUBLISH', 'gb:cancel', a.id)
  return {'running'}
end
return finish()`)

var requeueScript = redis.NewScript(queue + streamEnd + `
-- ARGV: id, epoch, worker, due, cost, most attempts, now, how long outages cost nothing, ms
local id, epoch, worker, due, cost, now = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[7]
local r = call('HMGET', job(id), 'state', 'epoch', 'worker', 'cancel', 'attempts', 'priority')
if r[1] ~= 'running' or r[2] ~= epoch or r[3] ~= worker then
  if call('HGET', running, id) == epoch .. ' ' .. worker then call('HDEL', running, id) end
  return {'stale'}
end
if r[4] then return {'canceled'} end
if cost == 'outage' then
  call('HSETNX', job(id), 'outage', now)
  if tonumber(now) - tonumber(call('HGET', job(id), 'outage')) > tonumber(ARGV[8]) then cost = 'attempt' end
end
if cost == 'attempt' and tonumber(r[5]) >= tonumber(ARGV[6]) then return {'exhausted'} end
if cost ~= 'attempt' then call('HINCRBY', job(id), 'attempts', -1) end
local into = call('HINCRBY', job(id), 'epoch', 1)
call('HSET', job(id), 'state', 'queued')
call('HDEL', job(id), 'worker', 'started')
call('HDEL', running, id)
call('ZADD', open, due, id) -- not the backlog: it keeps its place in the window
count(queued, tonumber(call('HGET', job(id), 'bytes') or 0) or 0)
local events = t .. 'events:' .. id
local last = stream_end(events)
if last then -- somebody watches
  append_event(events, 'status', into, 0, 0, last.total, '{"status":"queued","attempt":' .. call('HGET', job(id), 'attempts') .. '}')
  call('PUBLISH', 'gb:events:' .. id, '')
end
call('PUBLISH', 'gb:cancel', id) -- should the worker live after all, it stops
return {'ok', into, r[6]}`)

var deliverScript = redis.NewScript(`
-- KEYS: delivery, outbox   ARGV: delivery id, attempt, now, state, next due, status, error, ttl ms (of one that doesn't say)
local r = redis.call('HMGET', KEYS[1], 'state', 'attempt', 'expires')
if not r[1] then redis.call('ZREM', KEYS[2], ARGV[1]) return 'missing' end
if r[1] ~= 'pending' or r[2] ~= ARGV[2] then return 'stale' end
redis.call('HSET', KEYS[1], 'state', ARGV[4], 'sent', ARGV[3], 'status', ARGV[6], 'error', ARGV[7])
if ARGV[4] == 'pending' then
  redis.call('HINCRBY', KEYS[1], 'attempt', 1)
  redis.call('HSET', KEYS[1], 'due', ARGV[5])
  redis.call('ZADD', KEYS[2], ARGV[5], ARGV[1])
else
  redis.call('ZREM', KEYS[2], ARGV[1])
  if r[3] then redis.call('PEXPIREAT', KEYS[1], r[3]) else redis.call('PEXPIRE', KEYS[1], ARGV[8]) end
end
return 'ok'`)
