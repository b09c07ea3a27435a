package record

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/job"
)

var simTenants = []string{"ant", "bee"}

// clientOps are what clients ask an api for.
var clientOps = []op{
	{"submit", 10, submitOp},
	{"cancel", 4, cancelOp},
	{"purge", 3, purgeOp},
	{"decide", 4, decideOp},
	{"send batch", 4, batchOp},
	{"cancel batch", 1, cancelBatchOp},
}

// sweepOps are the passes of a sweeper, and what asynq does beside them.
var sweepOps = func() []op {
	ops := []op{{"asynq's turn", 4, func(ctx context.Context, l *lane) { l.p.asynq(ctx) }}}
	for i, p := range (&Sweeper{}).passes() {
		ops = append(ops, op{p.name, 2, func(ctx context.Context, l *lane) {
			l.p.sweeper.pass(ctx, p.name, l.p.sweeper.passes()[i].step)
		}})
	}
	return append(ops, op{"reap for long", 3, reapOp})
}()

// reapOp reaps for long enough that workers which do nothing meanwhile lose their jobs.
func reapOp(ctx context.Context, l *lane) {
	for range 6 {
		l.p.sweeper.pass(ctx, reapPass, l.p.sweeper.reap)
		if l.p.dead {
			return
		}
		if !l.p.w.free {
			l.p.w.age(2500 * time.Millisecond) //nolint:contextcheck // no step of the lane's
		}
	}
}

var deliverOps = []op{{"deliver", 1, func(ctx context.Context, l *lane) { deliverOp(ctx, l) }}}

var runOps = []op{{"run", 1, func(ctx context.Context, l *lane) { runOp(ctx, l) }}}

var beatOps = []op{{"beat", 1, func(ctx context.Context, l *lane) {
	w := fleet.Worker{ID: l.p.name, Concurrency: 2, Jobs: []string{}}
	for id := range l.p.holds {
		w.Jobs = append(w.Jobs, id)
	}
	_ = l.p.store.Fleet.Beat(ctx, w)
}}}

// again calls do as a caller does that hears of errors: some times, and while it lives.
func (l *lane) again(times int, do func() error) {
	for range times {
		if err := do(); err == nil || l.p.dead || !isSim(err) {
			return
		}
	}
}

func isSim(err error) bool { return err != nil && strings.Contains(err.Error(), "SIM ") }

// newSpec is a job of a random kind.
func (w *world) newSpec(now time.Time) job.Spec {
	s := job.Spec{Runtime: pick(w.rng, []string{"python", "python", "python", "node"}), Source: "print(1)", Priority: pick(w.rng, []job.Priority{job.High, job.Normal, job.Low, ""})}
	if w.chance(2) {
		s.Callback = &job.Callback{URL: "https://example.com/hook"}
	}
	if w.chance(6) {
		s.RunAt = now.Add(time.Duration(w.rng.IntN(20)) * time.Second)
	}
	if w.chance(6) {
		s.Deadline = now.Add(time.Duration(1+w.rng.IntN(60)) * time.Second)
	}
	if w.chance(4) {
		s.RetentionSeconds = 3600
	}
	return s
}

// newID is an id that a seed decides.
func (w *world) newID(tenant string) string {
	b := make([]byte, 16)
	for i := range b {
		b[i] = byte(w.rng.IntN(256))
	}
	return tenant + "-" + job.EncodeID(b)
}

func submitOp(ctx context.Context, l *lane) {
	w, tenant := l.p.w, pick(l.p.w.rng, simTenants)
	var jobs []NewJob
	for range 1 + w.rng.IntN(3) {
		j := NewJob{ID: w.newID(tenant), Spec: w.newSpec(l.p.store.now())}
		if w.chance(4) {
			j.Key = fmt.Sprintf("key %d", w.rng.IntN(4))
			j.RequestHash = HashRequest([]byte(j.Key))
		}
		if w.chance(4) {
			j.Hold = w.newHold(l.p.store.now())
		}
		jobs = append(jobs, j)
	}
	l.again(1+w.rng.IntN(3), func() error {
		created, err := l.p.store.CreateMany(ctx, tenant, jobs)
		for i, c := range created {
			var gone *job.GoneError
			switch {
			case c.Err == nil, errors.Is(c.Err, ErrExists):
				w.ledger.accepted(c.ID, jobs[i].Spec.Callback != nil && !c.Again, c.Again)
			case errors.As(c.Err, &gone) && w.ledger.purged[gone.ID]: // a key outlives the job that it named
			default:
				w.fail("job %s was refused: %w", jobs[i].ID, c.Err)
			}
		}
		return err
	})
}

func cancelOp(ctx context.Context, l *lane) {
	w := l.p.w
	id, ok := w.ledger.someJob(w.rng)
	if !ok {
		return
	}
	l.again(1+w.rng.IntN(2), func() error {
		status, err := l.p.store.Cancel(ctx, id, []byte(`{"status":"canceled","by":"`+l.p.name+`"}`))
		if err == nil && status == job.Canceled {
			w.ended(id, "cancel by "+l.p.name)
		}
		return err
	})
}

// newHold has a job wait for a decision, for longer or shorter than anybody takes for it.
func (w *world) newHold(now time.Time) *Held {
	return &Held{Hold: job.Hold{Rule: "rule", ExpiresAt: now.Add(time.Duration(1+w.rng.IntN(120)) * time.Second)}}
}

// decideOp approves a job that is held, or rejects it.
func decideOp(ctx context.Context, l *lane) {
	w := l.p.w
	held, err := l.p.store.HeldJobs(ctx, pick(w.rng, simTenants), 10)
	if err != nil || len(held) == 0 {
		return
	}
	j, approves := pick(w.rng, held), w.chance(2)
	l.again(1+w.rng.IntN(2), func() error {
		if approves {
			return l.p.store.Approve(ctx, j, job.Approval{Rule: "rule", By: l.p.name})
		}
		err := l.p.store.Refuse(ctx, j, &job.Error{Code: job.CodeRejected, Message: "rejected by " + l.p.name})
		if err == nil {
			w.ended(j.ID, "refused by "+l.p.name)
		}
		return err
	})
}

func purgeOp(ctx context.Context, l *lane) {
	w := l.p.w
	id, ok := w.ledger.someJob(w.rng)
	if !ok {
		return
	}
	w.ledger.purged[id] = true
	l.again(1+w.rng.IntN(2), func() error {
		err := l.p.store.Purge(ctx, id)
		if err != nil {
			return err
		}
		if w.chance(2) {
			return nil // its objects are left to the sweeper
		}
		tenant, _ := job.TenantOf(id)
		if err := w.ledger.deleteObjects(ctx, tenant, id, 0); err != nil {
			return err
		}
		return l.p.store.Purged(ctx, id)
	})
}

// runOp takes a task, as a worker does, and runs its job.
func runOp(ctx context.Context, l *lane) {
	p, w := l.p, l.p.w
	var queues []string
	for _, n := range w.rng.Perm(3) {
		queues = append(queues, []string{"high", "normal", "low"}[n])
	}
	var run queue.Run
	task, ok := p.take(ctx, &run, queues...)
	if !ok {
		return
	}
	if p.holds[run.ID] { // the same task, delivered again
		p.finishTask(ctx, task, nil)
		return
	}
	p.holds[run.ID] = true
	defer delete(p.holds, run.ID)
	j, err := p.store.Start(ctx, run.ID, run.Epoch, p.name, p.offers()...)
	var other *NotOfferedError
	switch {
	case errors.As(err, &other):
		_, err := p.store.HandOver(ctx, run, other)
		p.finishTask(ctx, task, err)
		return
	case errors.Is(err, job.ErrNotFound), errors.Is(err, ErrStale), errors.Is(err, job.ErrEnded), errors.Is(err, ErrTaken):
		p.finishTask(ctx, task, nil)
		return
	case err != nil:
		p.finishTask(ctx, task, err)
		return
	}
	for range w.rng.IntN(6) { // it runs
		if !l.pause("(runs)") {
			return
		}
	}
	l.endRun(ctx, j)
	p.finishTask(ctx, task, nil)
}

// endRun ends a job or hands it back, as worker's execute does.
func (l *lane) endRun(ctx context.Context, j Record) {
	p, w := l.p, l.p.w
	tries := 1 + w.rng.IntN(4)
	if j.CancelRequested || w.chance(12) {
		l.endWithout(ctx, j, job.Canceled, tries)
		return
	}
	if w.chance(5) {
		cost := pick(w.rng, []Cost{CostAttempt, CostNothing, CostOutage})
		l.again(tries, func() error {
			answer, err := p.store.Requeue(ctx, j.ID, j.Epoch, p.name, cost, time.Duration(w.rng.IntN(5))*time.Second)
			switch answer {
			case RequeueCanceled:
				l.endWithout(ctx, j, job.Canceled, tries)
			case RequeueExhausted:
				l.endWithout(ctx, j, job.InternalError, tries)
			case RequeueOK, RequeueStale:
			}
			return err
		})
		return
	}
	e := Ending{Status: pick(w.rng, []job.Status{job.Succeeded, job.Failed}), Stored: int64(w.rng.IntN(1000)), Dirty: w.chance(4)}
	e.ResultRef = fmt.Sprintf("tenants/%s/jobs/%s/%d/result.json", j.Tenant, j.ID, j.Epoch)
	if w.chance(2) {
		e.Result = []byte(fmt.Sprintf(`{"by":%q,"epoch":%d}`, p.name, j.Epoch))
	}
	w.ledger.put(j.ID, j.Epoch)
	l.again(tries, func() error {
		err := p.store.End(ctx, j, e)
		switch {
		case err == nil:
			w.ended(j.ID, fmt.Sprintf("end by %s in epoch %d", p.name, j.Epoch))
		case errors.Is(err, ErrStale), errors.Is(err, job.ErrEnded), errors.Is(err, job.ErrNotFound):
			if now, err := p.store.Get(ctx, j.ID); err == nil && (now.ResultRef != e.ResultRef || now.State != e.Status) {
				w.ledger.discard(j.ID, j.Epoch)
			}
		}
		return err
	})
}

// endWithout ends a job with a result that the record alone holds.
func (l *lane) endWithout(ctx context.Context, j Record, status job.Status, tries int) {
	l.again(tries, func() error {
		err := l.p.store.End(ctx, j, Ending{Status: status, Result: []byte(fmt.Sprintf(`{"without":%q}`, l.p.name)), Dirty: true})
		if err == nil {
			l.p.w.ended(j.ID, "end without a run by "+l.p.name)
		}
		return err
	})
}

// deliverOp takes the task of a delivery and makes the attempt.
func deliverOp(ctx context.Context, l *lane) {
	p, w := l.p, l.p.w
	var of queue.Deliver
	from := queue.Delivery
	if w.chance(3) {
		from = queue.DeliveryBacklog
	}
	task, ok := p.take(ctx, &of, from)
	if !ok {
		return
	}
	pace := Pace{Most: 2, Patience: 365 * 24 * time.Hour}
	d, err := p.store.TakeDelivery(ctx, of.Tenant, of.ID, of.Turn, pace)
	switch {
	case errors.Is(err, ErrNoDelivery), errors.Is(err, ErrNotDue):
		p.finishTask(ctx, task, nil)
		return
	case err != nil:
		p.finishTask(ctx, task, err)
		return
	}
	if !l.pause("(posts)") {
		return
	}
	began := p.store.now()
	w.ledger.posted[d.ID]++
	state, next := pick(w.rng, []DeliveryState{Delivered, Delivered, Pending, Exhausted, Gone}), time.Time{}
	if w.free {
		state = Delivered
	}
	if state == Pending {
		next = p.store.now().Add(time.Duration(1+w.rng.IntN(30)) * time.Second)
	}
	l.again(1+w.rng.IntN(3), func() error {
		return p.store.Attempted(ctx, d, Outcome{State: state, Status: 200, Next: next, Began: began}, pace)
	})
	p.finishTask(ctx, task, nil)
}

var dequeueScript = redis.NewScript(`
local id = redis.call('RPOPLPUSH', KEYS[1], KEYS[2])
if not id then return false end
redis.call('HSET', KEYS[4] .. id, 'state', 'active')
redis.call('HDEL', KEYS[4] .. id, 'pending_since')
redis.call('ZADD', KEYS[3], ARGV[1], id)
return id`)

var finishScript = redis.NewScript(`
if redis.call('LREM', KEYS[1], 0, ARGV[1]) == 0 then return 'recovered by another' end
redis.call('ZREM', KEYS[2], ARGV[1])
if ARGV[2] == '' then
  redis.call('DEL', KEYS[3])
else
  redis.call('HSET', KEYS[3], 'state', 'retry')
  redis.call('ZADD', KEYS[4], ARGV[2], ARGV[1])
end
return 'ok'`)

var forwardScript = redis.NewScript(`
local function pend(id)
  redis.call('LPUSH', KEYS[3], id)
  redis.call('HSET', KEYS[6] .. id, 'state', 'pending', 'pending_since', '1')
end
for _, id in ipairs(redis.call('ZRANGE', KEYS[5], '-inf', ARGV[2], 'BYSCORE')) do
  redis.call('ZREM', KEYS[5], id)
  if redis.call('LREM', KEYS[4], 0, id) > 0 then pend(id) end
end
for i = 1, 2 do
  for _, id in ipairs(redis.call('ZRANGE', KEYS[i], '-inf', ARGV[1], 'BYSCORE')) do
    redis.call('ZREM', KEYS[i], id)
    pend(id)
  end
end
return 'ok'`)
