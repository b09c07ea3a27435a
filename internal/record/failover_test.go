package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// failover is a group of Redis servers with Sentinels, beside which jobs are submitted, run and ended.
type failover struct {
	t            *testing.T
	group        *gbtest.RedisGroup
	api, worker  *record.Store
	mu           sync.Mutex
	accepted     []string
	last         time.Time     // something was accepted
	gap          time.Duration // the longest without that
	refused      int
	ends         map[string]int
	running      map[string]bool
	stopped      atomic.Bool
	submit, work sync.WaitGroup
}

// newFailover starts the servers, a worker and the sweeper, and four clients that submit one job after the other.
func newFailover(t *testing.T, c gbtest.RedisGroupConfig, replicas int) *failover {
	t.Helper()
	f := &failover{t: t, group: gbtest.StartRedisGroup(t, c), last: time.Now(), ends: map[string]int{}, running: map[string]bool{}}
	open := func(url string) *record.Store {
		s, err := record.Open(t.Context(), record.Config{URL: url, Replicas: replicas})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	f.api, f.worker = open(f.group.API()), open(f.group.Worker())
	ctx, cancel := context.WithCancel(context.Background())
	none := func(context.Context, string, string, int) error { return nil } // jobs here have no objects
	f.work.Go(func() {
		(&record.Sweeper{Records: f.api, DeleteObjects: none, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}).Run(ctx)
	})
	f.work.Go(func() { f.beat(ctx) })
	server := f.worker.Queue.Server(queue.ServerConfig(4, queue.Jobs(), time.Second, slog.New(slog.NewTextHandler(t.Output(), nil))), nil)
	if err := server.Start(asynq.HandlerFunc(f.run)); err != nil {
		t.Fatal(err)
	}
	for client := range 4 {
		f.submit.Go(func() { f.client(client) })
	}
	t.Cleanup(func() {
		f.stopped.Store(true)
		f.submit.Wait()
		cancel()
		server.Shutdown()
		f.work.Wait()
		f.worker.Close()
		f.api.Close()
	})
	return f
}

// client submits jobs, each under a key until it is accepted, as clients of the API do.
func (f *failover) client(client int) {
	for n := 0; !f.stopped.Load(); n++ {
		key := fmt.Sprintf("%d-%d", client, n)
		for !f.stopped.Load() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			created, err := f.api.CreateOne(ctx, "default", record.NewJob{ID: job.NewID("default"), Spec: job.Spec{Runtime: "bash"}, Key: key, RequestHash: record.HashRequest([]byte(key))})
			cancel()
			if err == nil && created.Err == nil {
				f.accept(created.ID)
				break
			}
			f.mu.Lock()
			f.refused++
			f.mu.Unlock()
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (f *failover) accept(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.accepted = append(f.accepted, id)
	f.gap, f.last = max(f.gap, time.Since(f.last)), time.Now()
}

func (f *failover) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.accepted)
}

// beat says that the worker lives, and what it runs.
func (f *failover) beat(ctx context.Context) {
	for ctx.Err() == nil {
		f.mu.Lock()
		jobs := make([]string, 0, len(f.running))
		for id := range f.running {
			jobs = append(jobs, id)
		}
		f.mu.Unlock()
		if err := f.worker.Fleet.Beat(ctx, fleet.Worker{ID: "w", Concurrency: 4, Jobs: jobs}); err != nil {
			f.t.Logf("beat: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// run is a worker's: it ends a job for as long as that takes.
func (f *failover) run(ctx context.Context, task *asynq.Task) error {
	var run queue.Run
	if err := json.Unmarshal(task.Payload(), &run); err != nil {
		f.t.Error(err)
		return nil
	}
	j, err := f.worker.Start(ctx, run.ID, run.Epoch, "w")
	if errors.Is(err, record.ErrStale) || errors.Is(err, record.ErrTaken) || errors.Is(err, job.ErrEnded) || errors.Is(err, job.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.running[j.ID] = true
	f.mu.Unlock()
	for {
		err := f.worker.End(context.WithoutCancel(ctx), j, record.Ending{Status: job.Succeeded, Result: []byte("{}")})
		final := err == nil || errors.Is(err, record.ErrStale) || errors.Is(err, job.ErrEnded) || errors.Is(err, job.ErrNotFound)
		if !final && !f.stopped.Load() {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		f.mu.Lock()
		delete(f.running, j.ID)
		if err == nil {
			f.ends[j.ID]++
		}
		f.mu.Unlock()
		return nil
	}
}

// outcome waits until what was accepted has ended, and returns how many of the jobs are unknown to Redis.
func (f *failover) outcome() (lost int) {
	f.t.Helper()
	f.stopped.Store(true)
	f.submit.Wait()
	f.stopped.Store(false) // the worker goes on
	defer f.stopped.Store(true)
	for _, id := range f.accepted {
		gone := false
		gbtest.Eventually(f.t, "job "+id+" has ended", func() bool {
			j, err := f.api.Get(f.t.Context(), id)
			gone = errors.Is(err, job.ErrNotFound)
			return gone || err == nil && j.State == job.Succeeded
		})
		if gone {
			lost++
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	twice := 0
	for _, n := range f.ends {
		if n > 1 {
			twice++
		}
	}
	f.t.Logf("%d jobs accepted, %d of them lost, %d ended twice; %d tries refused; nothing was accepted for %s", len(f.accepted), lost, twice, f.refused, f.gap.Round(100*time.Millisecond))
	return lost
}

// more waits until so many jobs more are accepted.
func (f *failover) more(n int) {
	f.t.Helper()
	before := f.count()
	gbtest.Eventually(f.t, fmt.Sprintf("%d jobs more are accepted", n), func() bool { return f.count() >= before+n })
}

// promoted waits until another server is the primary.
func (f *failover) promoted(old *gbtest.RedisServer) {
	f.t.Helper()
	gbtest.Eventually(f.t, "another server is the primary", func() bool { p := f.group.Primary(f.t); return p != nil && p != old })
}

// cutOff takes its replicas from the primary, as a network does that still has its clients.
func (f *failover) cutOff(primary *gbtest.RedisServer) (restore func()) {
	f.t.Helper()
	for _, s := range f.group.Servers {
		if s != primary {
			s.Signal(syscall.SIGSTOP)
		}
	}
	s, err := record.Open(f.t.Context(), record.Config{URL: primary.Admin()})
	if err != nil {
		f.t.Fatal(err)
	}
	defer s.Close()
	if err := s.Redis().Do(f.t.Context(), "client", "kill", "type", "replica").Err(); err != nil {
		f.t.Fatal(err)
	}
	return func() {
		for _, s := range f.group.Servers {
			if s != primary {
				s.Signal(syscall.SIGCONT)
			}
		}
	}
}

// What docs/operations.md recommends: a replica has what is accepted, and a primary without one takes nothing.
const recommendedReplicas = 1

func short() gbtest.RedisGroupConfig {
	return gbtest.RedisGroupConfig{DownAfter: 3 * time.Second, MaxLag: 2}
}

// The primary is killed in the middle of a batch: no accepted job is lost, and each has its end.
func TestPrimaryKilled(t *testing.T) {
	t.Parallel()
	f := newFailover(t, short(), recommendedReplicas)
	f.more(100)
	f.group.Primary(t).Kill()
	f.more(100)
	if lost := f.outcome(); lost > 0 {
		t.Errorf("%d accepted jobs are lost", lost)
	}
}

// A primary that its clients reach and its replicas don't loses what it accepts, unless replicas have to have it.
func TestPrimaryCutOffFromReplicas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		replicas int
		loses    bool
	}{{"nothing set", 0, true}, {"a replica confirms", recommendedReplicas, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.loses && testing.Short() {
				t.Skip("it shows what the settings are for")
			}
			f := newFailover(t, gbtest.RedisGroupConfig{DownAfter: 3 * time.Second}, c.replicas)
			f.more(50)
			primary := f.group.Primary(t)
			restore := f.cutOff(primary)
			if c.loses {
				f.more(50)
			} else {
				before := f.refusals()
				gbtest.Eventually(t, "submissions are refused", func() bool { return f.refusals() >= before+8 })
			}
			primary.Kill()
			restore()
			f.more(50)
			if lost := f.outcome(); (lost > 0) != c.loses {
				t.Errorf("%d accepted jobs are lost, want some: %v", lost, c.loses)
			}
		})
	}
}

func (f *failover) refusals() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused
}

// TestFailovers is what `make failover` runs: with the settings that docs/operations.md recommends, each server in
// turn is killed and comes back, and the primary says nothing for longer than it takes to make another.
func TestFailovers(t *testing.T) {
	if os.Getenv("GLOVEBOX_FAILOVERS") == "" {
		t.Skip("it takes minutes: make failover")
	}
	f := newFailover(t, gbtest.RedisGroupConfig{DownAfter: 5 * time.Second, MaxLag: 4}, recommendedReplicas)
	round := func(name string, lose, comeBack func(*gbtest.RedisServer)) {
		f.more(200)
		f.mu.Lock()
		f.gap = 0
		f.mu.Unlock()
		old := f.group.Primary(t)
		lose(old)
		f.promoted(old)
		f.more(200)
		f.mu.Lock()
		t.Logf("%s: nothing was accepted for %s", name, f.gap.Round(100*time.Millisecond))
		f.mu.Unlock()
		comeBack(old)
		f.more(200)
		gbtest.Eventually(t, "all servers follow again", func() bool { return f.group.Primary(t).Replicas() == 2 })
	}
	for n := range 3 {
		round(fmt.Sprintf("kill -9, %d", n), func(s *gbtest.RedisServer) { s.Kill() }, func(s *gbtest.RedisServer) { s.Restart() })
		round(fmt.Sprintf("silence, %d", n),
			func(s *gbtest.RedisServer) { s.Signal(syscall.SIGSTOP) },
			func(s *gbtest.RedisServer) { s.Signal(syscall.SIGCONT) })
	}
	if lost := f.outcome(); lost > 0 {
		t.Errorf("%d accepted jobs are lost", lost)
	}
}
