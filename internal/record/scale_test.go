package record

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// The fleet on paper: many more tenants than have something to do, as a platform's.
const (
	paperTenants = 10_000
	paperWorkers = 200 // of ten slots, each of which runs a job: of a tenant each
	paperRunning = 2_000
	paperBacklog = 1_000 // tenants, of the first of those that run one
	paperBehind  = 10    // jobs in each backlog
	paperDue     = 100   // deliveries, deadlines and garbage that are due
)

// paper is such a fleet in a real Redis, without any worker.
type paper struct {
	*Sweeper
	tenants []string
	dead    []string // jobs of a worker that doesn't beat
}

func (p *paper) job(t *testing.T, pipe redis.Pipeliner, tenant string, state job.Status, more ...any) string {
	t.Helper()
	id := job.NewID(tenant)
	fields := append([]any{
		"state", string(state), "epoch", 1, "attempts", 0, "created", ms(time.Now()), "bytes", 2, "priority", "normal",
		"version", 1, "runtime", "bash", "metadata", "null", "spec", "{}",
	}, more...)
	pipe.HSet(t.Context(), jobKey(tenant, id), fields...)
	pipe.ZAdd(t.Context(), jobsKey(tenant), redis.Z{Member: string(position(time.Now(), id))})
	return id
}

func newPaper(t *testing.T) *paper {
	t.Helper()
	w, _ := sweeping(t)
	s, ctx, past := w.Records, t.Context(), float64(ms(time.Now().Add(-time.Minute)))
	p := &paper{Sweeper: w}
	pipe := s.rdb.Pipeline()
	flush := func() {
		t.Helper()
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
	}
	jobs := map[string][]string{} // worker → what it runs
	var queued []queue.Task
	for n := range paperTenants {
		tenant := fmt.Sprintf("t%05d", n)
		p.tenants = append(p.tenants, tenant)
		pipe.SAdd(ctx, tenantsKey, tenant)
		pipe.ZAdd(ctx, garbageKey(tenant), redis.Z{Score: float64(ms(time.Now().Add(time.Hour))), Member: job.NewID(tenant)})
		if n < paperRunning {
			worker := fmt.Sprint("w", n%paperWorkers)
			id := p.job(t, pipe, tenant, job.Running, "worker", worker)
			pipe.HSet(ctx, runningKey(tenant), id, "1 "+worker)
			jobs[worker] = append(jobs[worker], id)
			queued = append(queued, queue.RunTask(id, 1, job.Normal, time.Time{}))
		}
		if n < paperBacklog {
			pipe.HSet(ctx, script.Key(tenant, "line"), "last", paperBehind)
			for i := range paperBehind {
				pipe.ZAdd(ctx, backlogKey(tenant, job.Normal), redis.Z{Score: float64(i), Member: p.job(t, pipe, tenant, job.Queued)})
			}
		}
		if n < paperDue {
			did := "msg_" + strconv.Itoa(n)
			pipe.HSet(ctx, deliveryKey(tenant, did), "job", job.NewID(tenant), "url", "https://example.com", "event", job.EventCompleted, "state", "pending", "attempt", 1, "created", past, "due", past)
			pipe.ZAdd(ctx, outboxKey(tenant), redis.Z{Score: past, Member: did})
			pipe.ZAdd(ctx, garbageKey(tenant), redis.Z{Score: past, Member: job.NewID(tenant)})
			pipe.ZAdd(ctx, deadlineKey(tenant), redis.Z{Score: past, Member: job.NewID(tenant)})
		}
		if n%200 == 199 {
			flush()
		}
	}
	enqueueAll(t, s, queued)
	for _, q := range queued { // which workers took
		pipe.LRem(ctx, "asynq:{normal}:pending", 1, q.ID())
		pipe.LPush(ctx, "asynq:{normal}:active", q.ID())
		pipe.ZAdd(ctx, "asynq:{normal}:lease", redis.Z{Score: float64(time.Now().Add(time.Hour).Unix()), Member: q.ID()})
	}
	for worker, ids := range jobs {
		b, err := json.Marshal(fleet.Worker{ID: worker, Concurrency: paperRunning / paperWorkers, Jobs: ids})
		if err != nil {
			t.Fatal(err)
		}
		pipe.Set(ctx, workerKey(worker), b, 0)
		pipe.HSet(ctx, slotsKey, worker, paperRunning/paperWorkers)
	}
	flush()
	queued = nil
	for _, tenant := range p.tenants[:paperBacklog] { // of each, one more is released
		id := p.job(t, pipe, tenant, job.Queued)
		pipe.ZAdd(ctx, openKey(tenant), redis.Z{Score: past, Member: id})
		queued = append(queued, queue.RunTask(id, 1, job.Normal, time.Time{}))
	}
	flush()
	enqueueAll(t, s, queued)
	p.dead = jobs["w0"]
	return p
}

// cost is what a pass cost Redis, and how long it took.
type cost struct {
	spent
	took, cpu time.Duration // cpu is of Redis' one thread, by its commandstats
}

func (p *paper) measure(t *testing.T, what string, do func()) cost {
	t.Helper()
	usec := func() (n time.Duration) {
		for line := range strings.Lines(p.Records.rdb.Info(t.Context(), "commandstats").Val()) {
			if strings.HasPrefix(line, "cmdstat_eval") { // it has those of the script
				continue
			}
			_, text, _ := strings.Cut(line, ",usec=")
			text, _, _ = strings.Cut(text, ",")
			if us, err := strconv.ParseInt(text, 10, 64); err == nil {
				n += time.Duration(us) * time.Microsecond
			}
		}
		return n
	}
	before, began := usec(), time.Now()
	c := cost{spent: p.Records.spends(t, do)}
	c.took, c.cpu = time.Since(began), usec()-before
	t.Logf("%-16s %6d round trips, %7d commands, %8s of Redis' CPU, %8s in all", what, c.trips, c.commands, c.cpu.Round(100*time.Microsecond), c.took.Round(time.Millisecond))
	return c
}

// TestScale: what a pass over 10,000 tenants costs, counted; jobs of a dead worker are
// taken back within a minute though each round trip takes 10 ms; and how many runs a newcomer waits.
func TestScale(t *testing.T) {
	t.Parallel()
	p := newPaper(t)
	s, ctx := p.Records, t.Context()

	// Round trips: one for 500 tenants and each thing that is asked of all of them, and some
	// for what was found. Commands: few a tenant, and some ten for each entry that is due.
	const groups = paperTenants / redisconn.AtOnce
	for _, pass := range p.passes() {
		due := 0
		switch pass.name {
		case openPass, releasePass:
			due = paperBacklog
		case outboxPass, garbagePass, deadlinePass:
			due = paperDue
		case reapPass:
			due = paperRunning
		}
		for _, turn := range []string{"first", "then"} {
			c := p.measure(t, pass.name+", "+turn, func() { p.pass(ctx, pass.name, pass.step) })
			trips, commands := 3*groups+10, 3*paperTenants+15*due
			if pass.name == garbagePass || pass.name == deadlinePass {
				trips += 5 * due // each entry for itself
			}
			if c.trips > trips || c.commands > commands {
				t.Errorf("%s, %s: it took %d round trips and %d commands, want %d and %d at most", pass.name, turn, c.trips, c.commands, trips, commands)
			}
			if pass.name != reapPass && pass.name != releasePass {
				due = 0 // it is put off
			}
		}
	}

	waiting := func() int64 { return s.rdb.LLen(ctx, "asynq:{normal}:pending").Val() }
	s.mustCreate(t, "newcomer", "")
	before := waiting() - 1
	t.Logf("%-16s %d jobs before a newcomer's, %.1f runs", "", before, float64(before)/paperRunning)
	if before > runsAhead*paperRunning+paperBacklog {
		t.Errorf("%d jobs run before a newcomer's, want %d at most", before, runsAhead*paperRunning+paperBacklog)
	}
	if before < paperRunning {
		t.Errorf("%d jobs wait for %d slots, though there are more", before, paperRunning)
	}

	clock := time.Now()
	s.now = func() time.Time { return clock }
	if err := s.rdb.Del(ctx, workerKey("w0")).Err(); err != nil {
		t.Fatal(err)
	}
	died := clock
	s.rdb.AddHook(slow(func() { clock = clock.Add(10 * time.Millisecond) })) // a distant Redis
	left := func() (n int) {
		for _, id := range p.dead {
			if j, err := s.Get(ctx, id); err != nil || j.Epoch == 1 {
				n++
			}
		}
		return n
	}
	for left() > 0 && clock.Sub(died) < time.Minute {
		p.pass(ctx, reapPass, p.reap)
		clock = clock.Add(reapInterval)
	}
	t.Logf("%-16s jobs of a dead worker are queued again after %s, of which its beat takes 15 s to lapse", "", clock.Sub(died).Round(time.Second)+beatLife)
	if n := left(); n > 0 || clock.Sub(died)+beatLife > time.Minute {
		t.Errorf("%d of %d jobs of a dead worker are with it after %s", n, len(p.dead), clock.Sub(died)+beatLife)
	}
}

func enqueueAll(t *testing.T, s *Store, tasks []queue.Task) {
	t.Helper()
	if err := s.Queue.EnqueueAll(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
}
