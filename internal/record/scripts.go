package record

import "github.com/redis/go-redis/v9"

// Each script takes the time from its caller and answers a word (or a word and
// values); docs/adr/0001-record.md lists preconditions and effects.

var createScript = redis.NewScript(`
-- KEYS: job, open, queued, jobs   ARGV: id, now, due, bytes, most jobs, most bytes (0: any), then field, value, …
if redis.call('EXISTS', KEYS[1]) == 1 then return 'exists' end
local jobs = redis.call('ZCARD', KEYS[2])
if jobs == 0 then redis.call('DEL', KEYS[3]) end -- heals what a worker of before these bytes were counted left
local bytes, most_jobs, most_bytes = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if most_jobs > 0 and jobs >= most_jobs then return 'jobs_queued' end
if most_bytes > 0 and tonumber(redis.call('GET', KEYS[3]) or 0) + bytes > most_bytes then return 'bytes_queued' end
redis.call('HSET', KEYS[1], 'state', 'queued', 'epoch', 1, 'attempts', 0, 'created', ARGV[2], 'bytes', ARGV[4], unpack(ARGV, 7))
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
redis.call('INCRBY', KEYS[3], ARGV[4])
redis.call('ZADD', KEYS[4], 0, ARGV[2] .. ':' .. ARGV[1])
return 'ok'`)

// unqueue takes the bytes of a job that is no longer queued from its tenant's.
const unqueue = `
local function unqueue(job, queued)
  if redis.call('DECRBY', queued, redis.call('HGET', job, 'bytes') or 0) <= 0 then redis.call('DEL', queued) end
end
`

var startScript = redis.NewScript(unqueue + `
-- KEYS: job, open, running, queued   ARGV: id, epoch, worker, now, newest version known
local r = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'version', 'worker')
if not r[1] then return {'missing'} end
if r[1] ~= 'queued' and r[1] ~= 'running' then return {'ended'} end
if r[2] ~= ARGV[2] then return {'stale'} end
local again = r[1] == 'running'
if again and r[4] ~= ARGV[3] then return {'taken'} end
if tonumber(r[3]) > tonumber(ARGV[5]) then return {'newer'} end
redis.call('HSET', KEYS[1], 'state', 'running', 'worker', ARGV[3], 'started', ARGV[4])
if not again then
  redis.call('HINCRBY', KEYS[1], 'attempts', 1)
  unqueue(KEYS[1], KEYS[4])
end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HSET', KEYS[3], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
return {'ok', redis.call('HGETALL', KEYS[1])}`)

// finish ends a job; end and cancel share it.
const finish = unqueue + keep + `
-- KEYS: job, open, running, outbox, garbage, delivery, queued, and keep's
-- a: id, now, state, result, result_ref, ttl ms (of a record that doesn't say), delivery id, event, dirty, how long after ttl objects go, ms, and keep's
local function finish(a)
  local r = redis.call('HMGET', KEYS[1], 'epoch', 'callback', 'spec_ref', 'state', 'retention', 'created')
  local ttl = r[5] or a.ttl
  if r[4] == 'queued' then unqueue(KEYS[1], KEYS[7]) end
  redis.call('HSET', KEYS[1], 'state', a.state, 'finished', a.now, 'result_ref', a.result_ref)
  keep(a, ttl, r[6])
  redis.call('HDEL', KEYS[1], 'spec', 'spec_ref')
  redis.call('ZREM', KEYS[2], a.id)
  redis.call('HDEL', KEYS[3], a.id)
  if r[2] and r[2] ~= '' then
    redis.call('HSET', KEYS[6], 'job', a.id, 'url', r[2], 'event', a.event, 'state', 'pending', 'attempt', 1, 'created', a.now, 'due', a.now, 'expires', string.format('%.0f', a.now + ttl))
    redis.call('ZADD', KEYS[4], a.now, a.delivery)
  end
  if a.dirty == '1' or tonumber(r[1]) > 1 or r[3] then
    redis.call('ZADD', KEYS[5], a.now, a.id)
  else
    redis.call('ZADD', KEYS[5], a.now + ttl + a.late, a.id)
  end
  redis.call('PEXPIRE', KEYS[1], ttl)
  redis.call('PUBLISH', 'gb:done', a.id)
end
local a = {id=ARGV[1], now=ARGV[2], state=ARGV[3], result=ARGV[4], result_ref=ARGV[5], ttl=ARGV[6], delivery=ARGV[7], event=ARGV[8], dirty=ARGV[9], late=ARGV[10], cached=ARGV[11], bytes=ARGV[12]}
local state = redis.call('HGET', KEYS[1], 'state')
if not state then return 'missing' end
if state ~= 'queued' and state ~= 'running' then return 'ended' end
`

var endScript = redis.NewScript(finish + `
-- ARGV[13]: epoch, ARGV[14]: worker
local r = redis.call('HMGET', KEYS[1], 'epoch', 'worker')
if r[1] ~= ARGV[13] or (state == 'running' and r[2] ~= ARGV[14]) then return 'stale' end
finish(a)
return 'ok'`)

var cancelScript = redis.NewScript(finish + `
if state == 'running' then
  redis.call('HSET', KEYS[1], 'cancel', 1)
  redis.call('PUBLISH', 'gb:cancel', a.id)
  return 'running'
end
finish(a)
return 'ok'`)

var requeueScript = redis.NewScript(`
-- KEYS: job, open, running, queued   ARGV: id, epoch, worker, due, cost, most attempts, now, how long outages cost nothing, ms
local r = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'worker', 'cancel', 'attempts', 'priority')
if r[1] ~= 'running' or r[2] ~= ARGV[2] or r[3] ~= ARGV[3] then
  if redis.call('HGET', KEYS[3], ARGV[1]) == ARGV[2] .. ' ' .. ARGV[3] then redis.call('HDEL', KEYS[3], ARGV[1]) end
  return {'stale'}
end
if r[4] then return {'canceled'} end
local cost = ARGV[5]
if cost == 'outage' then
  redis.call('HSETNX', KEYS[1], 'outage', ARGV[7])
  if tonumber(ARGV[7]) - tonumber(redis.call('HGET', KEYS[1], 'outage')) > tonumber(ARGV[8]) then cost = 'attempt' end
end
if cost == 'attempt' and tonumber(r[5]) >= tonumber(ARGV[6]) then return {'exhausted'} end
if cost ~= 'attempt' then redis.call('HINCRBY', KEYS[1], 'attempts', -1) end
local epoch = redis.call('HINCRBY', KEYS[1], 'epoch', 1)
redis.call('HSET', KEYS[1], 'state', 'queued')
redis.call('HDEL', KEYS[1], 'worker', 'started')
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1])
redis.call('INCRBY', KEYS[4], redis.call('HGET', KEYS[1], 'bytes') or 0)
redis.call('PUBLISH', 'gb:cancel', ARGV[1]) -- should the worker live after all, it stops
return {'ok', epoch, r[6]}`)

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
