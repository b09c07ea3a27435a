package record

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
)

// Retention is how long jobs of a tenant with these terms are kept, at most, and unless
// they ask for less.
func (s *Store) Retention(t job.Terms) time.Duration {
	if t.RetentionSeconds == 0 {
		return s.retention
	}
	return min(time.Duration(t.RetentionSeconds)*time.Second, s.retention)
}

// retentionOf is how long this job is kept after its end.
func (s *Store) retentionOf(spec job.Spec, t job.Terms) time.Duration {
	if spec.RetentionSeconds == 0 {
		return s.Retention(t)
	}
	return min(time.Duration(spec.RetentionSeconds)*time.Second, s.Retention(t))
}

// Expires is when a job that has ended is no longer kept.
func (j Job) Expires() time.Time { return j.Finished.Add(j.Retention) }

// parse reads a record. One of before jobs had a retention of their own has the operator's.
func (s *Store) parse(tenant, id string, f map[string]string) (Job, error) {
	j, err := parseJob(tenant, id, f)
	if j.Retention == 0 {
		j.Retention = s.retention
	}
	return j, err
}

// keep is what finish does to keep what the job left for as long as its retention.
const keep = `
local function keep(a, retention, created, charged)
  local left = math.max(charged - text_cost(call('HSTRLEN', job(a.id), 'spec')), 0)
  if a.result_ref == '' then
    call('HSET', job(a.id), 'result', a.result)
    left = left + text_cost(#a.result)
  elseif a.result ~= '' then
    local cached = a.cached
    if tonumber(cached) > tonumber(retention) then cached = retention end
    call('SET', t .. 'result:' .. a.id, a.result, 'PX', cached)
    lend('result:' .. a.id, text_cost(#a.result), a.now + cached, a.now, a.lend)
  end
  charge(left - charged)
  call('HSET', t .. 'kept', a.id, a.bytes .. ' ' .. created .. ' ' .. left)
  count(t .. 'stored', a.bytes)
end
`

// Purge takes an ended job out of everything but what says which objects of it are
// still to be deleted: they are due at once, and once they are gone, Forget says so. A
// delivery that is pending is dropped. It fails with job.ErrNotFound or job.ErrNotEnded.
func (s *Store) Purge(ctx context.Context, id string) error {
	j, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	t, did := j.Tenant, DeliveryID(id, job.EventCompleted, j.Callback)
	answer, err := purgeScript.Run(ctx, s.rdb, []string{tenantPrefix(t)}, id, did, ms(s.now())).Text()
	switch {
	case err != nil:
		return fmt.Errorf("purge job: %w", err)
	case answer == "missing":
		return job.ErrNotFound
	case answer == "kept":
		return job.ErrNotEnded
	}
	return nil
}

var purgeScript = redis.NewScript(memory + lending + `
-- ARGV: id, delivery id, now
local id, delivery = ARGV[1], ARGV[2]
local r = call('HMGET', t .. 'job:' .. id, 'state', 'created')
if not r[1] then return 'missing' end
if r[1] == 'queued' or r[1] == 'running' then return 'kept' end
call('DEL', t .. 'job:' .. id, t .. 'result:' .. id, t .. 'events:' .. id, t .. 'delivery:' .. delivery)
take_back('result:' .. id)
take_back('events:' .. id)
call('ZREM', t .. 'outbox', delivery)
call('ZREM', t .. 'jobs', r[2] .. ':' .. id)
call('ZADD', t .. 'garbage', ARGV[3], id)
return 'ok'`)

// Purged says that the objects of a purged job are deleted. The sweeper looks once more,
// for what a try that lost the job may still be writing.
func (s *Store) Purged(ctx context.Context, id string) error {
	tenant, ok := job.TenantOf(id)
	if !ok {
		return job.ErrNotFound
	}
	return s.forget(ctx, tenant, id, s.now().Add(secondSweepDelay))
}

// forget gives back what a job or batch without record and objects, or an upload, took of its
// tenant's quotas, and takes it out of the list. again is when to look for objects once more, if ever.
func (s *Store) forget(ctx context.Context, tenant, id string, again time.Time) error {
	due := ""
	if !again.IsZero() {
		due = fmt.Sprint(ms(again))
	}
	err := forgetScript.Run(ctx, s.rdb, []string{tenantPrefix(tenant)}, id, due, ms(s.now()), s.lendMost).Err()
	if err != nil {
		return fmt.Errorf("forget %s: %w", id, err)
	}
	return nil
}

var forgetScript = redis.NewScript(memory + lending + `
-- ARGV: id of a job or a batch, or an upload, when to look again or '', now, most bytes lent
local kept = call('HGET', t .. 'kept', ARGV[1])
if kept then
  local bytes, created, charged = string.match(kept, '^(%d+) (%d+) ?(%d*)$')
  call('HDEL', t .. 'kept', ARGV[1])
  count(t .. 'stored', -(tonumber(bytes) or 0))
  charge(-(tonumber(charged) or 0))
  call('ZREM', t .. 'jobs', (created or '') .. ':' .. ARGV[1])
  call('ZREM', t .. 'batches', (created or '') .. ':' .. ARGV[1])
end
-- What a job counted that a worker of before has ended nobody gives back: it goes with the last of the tenant's.
if call('HLEN', t .. 'kept') == 0 and call('ZCARD', t .. 'jobs') == 0 and call('ZCARD', t .. 'batches') == 0 then call('DEL', recorded) end
forget_keys(ARGV[3])
make_room(ARGV[3], ARGV[4])
if ARGV[2] == '' then
  call('ZREM', t .. 'garbage', ARGV[1])
else
  call('ZADD', t .. 'garbage', 'XX', ARGV[2], ARGV[1])
end
return 'ok'`)

// lookWhileKept says when to look at the objects of a job again, unless its record is
// gone by now: then that is due already.
var lookWhileKept = redis.NewScript(`
-- KEYS: job, garbage   ARGV: id, due
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('ZADD', KEYS[2], 'XX', ARGV[2], ARGV[1]) end
return 'ok'`)

// stored is how many bytes of objects are kept for the tenant.
func (s *Store) stored(ctx context.Context, tenant string) (int64, error) {
	n, err := s.sum(s.rdb.Get(ctx, storedKey(tenant)))
	if err != nil {
		return 0, fmt.Errorf("read bytes stored: %w", err)
	}
	return n, nil
}

// checkStored fails with a *job.Error when a tenant keeps as much as it may.
func (s *Store) checkStored(ctx context.Context, tenant string, q job.Quotas) error {
	if q.BytesStored == 0 {
		return nil
	}
	n, err := s.stored(ctx, tenant)
	if err != nil || n < q.BytesStored {
		return err
	}
	return &job.Error{
		Code: job.CodeQuotaExceeded,
		Message: fmt.Sprintf("the tenant's quota bytes_stored (%d) is used up by the %d bytes that are kept of its jobs: purge some, or wait until they expire",
			q.BytesStored, n),
	}
}
