package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// fleetOf is an installation whose workers are hosts of a network.
type fleetOf struct {
	*glovebox
	records *record.Store
	workers []*fleetWorker
	pause   string // how long a job takes, seconds

	mu      sync.Mutex
	batches []job.Batch
	cli     operator
	env     []string
}

// fleetWorker is a worker with a network namespace, and sandboxes that no other worker takes for its.
type fleetWorker struct {
	*gbtest.NetworkHost
	name, id, instance string
}

// redoneWithin is how soon another worker has done what a worker that was killed had begun.
const redoneWithin = time.Minute

// TestFleet: four workers in network namespaces of their own run a batch. In the middle of it one is cut off for a moment, one
// for long, one is killed and one is drained. Each job has one result and one delivery. Until the last of that is over, more jobs
// come as soon as few are left: so it happens in the midst of work, however long it takes.
//
// GLOVEBOX_FLEET_JOBS is how many jobs the batch has (100, or 2,000 with `make fleet`).
func TestFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for minutes: make fleet and make test-long have it")
	}
	t.Parallel()
	n := gbtest.Number(t, "GLOVEBOX_FLEET_JOBS", 100)
	f := startFleet(t, 4)
	cut, killed, drained, blinked := f.workers[0], f.workers[1], f.workers[2], f.workers[3]
	f.pause = "2" // a small batch is to last for as long as it takes to miss a worker
	if n > 500 {
		f.pause = "0.5"
	}
	if err := f.submitBatch(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	feeding := f.keepFed(leastToDo)

	f.awaitEnded(n / 20)
	onBlinked := f.seize(blinked, blinked.Cut, blinked.Mend)
	gbtest.Eventually(t, "its jobs have come to their end, which it can tell nobody", func() bool { return f.sandboxes(blinked) == 0 })
	blinked.Mend()

	f.awaitEnded(n / 10)
	// The cut comes first: what the killed one had begun is then left to two.
	onCut := f.seize(cut, cut.Cut, cut.Mend)
	cutAt := time.Now()
	onKilled := f.seize(killed, killed.Kill, nil)
	killedAt := time.Now()
	t.Logf("after %.0f s %s was cut off with %d jobs, and %s killed with %d", cutAt.Sub(f.began).Seconds(), cut.id, len(onCut), killed.id, len(onKilled))

	f.awaitTaken(cut.id, onCut)
	f.awaitTaken(killed.id, onKilled)
	cut.Mend()
	mended := time.Now()
	t.Logf("%s was back after %.0f s", cut.id, mended.Sub(cutAt).Seconds())
	gbtest.Eventually(t, "the one that was cut off runs jobs again", func() bool { return len(f.runs(cut.id)) > 0 })

	kept := f.runs(drained.id)
	f.cli.says(0, []string{regexp.QuoteMeta(drained.id) + " takes no more jobs"}, "fleet", "drain", drained.id)
	gbtest.Eventually(t, "the drained one runs nothing", func() bool { return f.isIdle(drained.id) })
	idle := time.Now()
	left := f.toDo()
	drained.Stop()
	if !drained.Printed("glovebox-worker drained") {
		t.Errorf("%s was not drained: %s", drained.id, drained.LastWords())
	}
	more := feeding()
	t.Logf("%s was drained, when %d jobs were to do; %d came after the first %d", drained.id, left, more, n)

	results := f.collect()
	f.judgeKilled(results, onKilled, killed.id, killedAt)
	f.judgeCut(results, onCut, cut, cutAt, mended)
	f.judgeBlinked(results, onBlinked, blinked)
	for id, r := range results {
		if slices.Contains(kept, id) && (r.Worker != drained.id || r.Attempt != 1) {
			t.Errorf("job %s ran on the worker that was drained, and has a result of attempt %d by %s", id, r.Attempt, r.Worker)
		}
		if r.Worker == drained.id && r.Timing.StartedAt.After(idle) {
			t.Errorf("job %s began on %s, which was drained", id, drained.id)
		}
	}
	if left == 0 {
		t.Error("nothing was left to do when the last worker was drained")
	}
	f.deliveredOnce(results)
	f.cleanedUp(killed, results)
}

func startFleet(t *testing.T, n int) *fleetOf {
	t.Helper()
	f := &fleetOf{glovebox: start(t, options{noWorker: true, redisHangs: true})} // time-outs as in production: a cable is pulled
	f.cli = f.operator(t)
	network := gbtest.StartNetwork(t)
	redis := network.Open(f.redis.Addr)
	f.env = []string{
		"GLOVEBOX_INSECURE=redis,s3", // no TLS
		"GLOVEBOX_REDIS_URL=" + strings.Replace(f.redis.Worker(), f.redis.Addr, redis, 1),
		"GLOVEBOX_S3_ENDPOINT=http://" + network.Open(strings.TrimPrefix(f.s3.Endpoint, "http://")),
	}
	var err error
	if f.records, err = record.Open(t.Context(), record.Config{URL: f.redis.URL()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.records.Close() })
	for i := range n {
		w := &fleetWorker{name: fmt.Sprint("worker ", i+1), instance: fmt.Sprint(f.instance, i+1)}
		f.podman.RemoveAfter(t, w.instance)
		w.NetworkHost = network.Start([]string{binary(t, "glovebox-worker")}, f.workerEnv(append(slices.Clone(f.env), "GLOVEBOX_INSTANCE="+w.instance)...))
		gbtest.Eventually(t, w.name+" takes jobs", func() bool {
			if !w.Alive() {
				t.Fatalf("%s ended: %s", w.name, w.LastWords())
			}
			line := workerLine.FindStringSubmatch(w.Output())
			if line != nil {
				w.id = line[1]
			}
			return line != nil
		})
		f.workers = append(f.workers, w)
	}
	return f
}

// leastToDo is with how few jobs to do more come, and moreJobs how many.
const leastToDo, moreJobs = 30, 20

// submitBatch submits a batch of n small jobs, each with a delivery.
func (f *fleetOf) submitBatch(ctx context.Context, n int) error {
	b, err := f.client.SubmitBatch(ctx, producer.BatchOptions{}, func(yield func(job.Spec, error) bool) {
		for i := range n {
			spec := job.Spec{
				Runtime: "bash", Source: fmt.Sprintf("echo %d; sleep %s", i, f.pause),
				Callback: &job.Callback{URL: f.hook.url}, Limits: job.Limits{WallMS: 60_000, CPUMS: 60_000},
			}
			if !yield(spec, nil) {
				return
			}
		}
	})
	if err != nil || b.Jobs != n {
		return fmt.Errorf("got %+v, %w, want a batch of %d jobs", b, err, n)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batches = append(f.batches, b)
	return nil
}

// keepFed submits more jobs whenever fewer than least are to do, until it is told to stop: then it returns how many it has submitted.
func (f *fleetOf) keepFed(least int) (stop func() int) {
	fed, cancel := context.WithCancel(f.tb.Context())
	ctx := context.WithoutCancel(fed) // what is being submitted when it is told to stop counts
	done, more := make(chan error, 1), 0
	go func() {
		done <- func() error {
			for fed.Err() == nil {
				left, err := f.count(ctx, func(b job.Batch) int { return b.Jobs - b.Ended })
				if err == nil && left < least {
					err, more = f.submitBatch(ctx, moreJobs), more+moreJobs
				}
				if err != nil {
					return err
				}
				select {
				case <-fed.Done():
				case <-time.After(200 * time.Millisecond):
				}
			}
			return nil
		}()
	}()
	stop = sync.OnceValue(func() int {
		cancel()
		if err := <-done; err != nil && f.tb.Context().Err() == nil {
			f.tb.Errorf("more jobs: %v", err)
		}
		return more
	})
	f.tb.Cleanup(func() { stop() })
	return stop
}

// count adds up what is asked of each batch.
func (f *fleetOf) count(ctx context.Context, of func(job.Batch) int) (n int, err error) {
	f.mu.Lock()
	batches := slices.Clone(f.batches)
	f.mu.Unlock()
	for _, b := range batches {
		now, err := f.client.GetBatch(ctx, b.ID)
		if err != nil {
			return 0, err
		}
		n += of(now)
	}
	return n, nil
}

// toDo is how many jobs have not ended.
func (f *fleetOf) toDo() int {
	f.tb.Helper()
	n, err := f.count(f.tb.Context(), func(b job.Batch) int { return b.Jobs - b.Ended })
	if err != nil {
		f.tb.Fatal(err)
	}
	return n
}

func (f *fleetOf) awaitEnded(n int) {
	f.tb.Helper()
	gbtest.Eventually(f.tb, fmt.Sprintf("%d jobs have ended", n), func() bool {
		ended, err := f.count(f.tb.Context(), func(b job.Batch) int { return b.Ended })
		if err != nil {
			f.tb.Fatal(err)
		}
		return ended >= n
	})
}

// runs lists the jobs that the record has as running on the worker.
func (f *fleetOf) runs(worker string) (ids []string) {
	f.tb.Helper()
	running, err := f.records.Redis().HGetAll(f.tb.Context(), "gb:{default}:running").Result()
	if err != nil {
		f.tb.Fatal(err)
	}
	for id, at := range running {
		if strings.HasSuffix(at, " "+worker) {
			ids = append(ids, id)
		}
	}
	return ids
}

// seize lets something happen to a worker as it has just begun a job, and returns what it ran at that moment. Where it ran
// nothing after all, it is tried again.
func (f *fleetOf) seize(w *fleetWorker, happen, undo func()) (ids []string) {
	f.tb.Helper()
	before := f.runs(w.id)
	gbtest.Eventually(f.tb, w.name+" begins a job", func() bool {
		now := f.runs(w.id)
		began := slices.ContainsFunc(now, func(id string) bool { return !slices.Contains(before, id) })
		before = now
		if !began {
			return false
		}
		happen()
		if ids = f.runs(w.id); len(ids) > 0 {
			return true
		}
		if undo == nil {
			f.tb.Fatalf("%s ran nothing when it was killed", w.name)
		}
		undo()
		return false
	})
	return ids
}

// sandboxes counts those of the worker that live.
func (f *fleetOf) sandboxes(w *fleetWorker) int {
	f.tb.Helper()
	return len(slices.DeleteFunc(f.inPodman("&filters="+escape(fmt.Sprintf(`{"label":["run.glovebox.instance=%s"]}`, w.instance))), container.ended))
}

// awaitTaken waits until none of the jobs is that worker's.
func (f *fleetOf) awaitTaken(worker string, ids []string) {
	f.tb.Helper()
	gbtest.Eventually(f.tb, "the jobs of "+worker+" are taken from it, and have ended", func() bool {
		for _, id := range ids {
			j, err := f.client.Get(f.tb.Context(), id)
			if err != nil || !j.Ended() {
				return false
			}
		}
		return true
	})
}

// isIdle reports whether a drained worker says of itself that it runs nothing.
func (f *fleetOf) isIdle(worker string) bool {
	f.tb.Helper()
	var list []struct {
		ID      string
		Running int
		Paused  string
		Drained bool
	}
	if err := json.Unmarshal([]byte(f.cli.says(0, nil, "fleet", "--json")), &list); err != nil {
		f.tb.Fatal(err)
	}
	for _, w := range list {
		if w.ID == worker {
			return w.Drained && w.Paused != "" && w.Running == 0
		}
	}
	return false // on a busy machine its beat may be late
}

// refusedLine is about a job whose end the worker was not allowed to tell.
var refusedLine = regexp.MustCompile(`msg="job (?:was another worker's by the time it ended here|was taken from this worker)".* job_id=(\S+)`)

// staleLine is about a job that was no longer this worker's to hand back.
var staleLine = regexp.MustCompile(`msg="job handed back".* job_id=(\S+).* answer=stale`)

// handedBackLine is about a job that met the outage before it could run.
var handedBackLine = regexp.MustCompile(`msg="job handed back".* job_id=(\S+)`)
