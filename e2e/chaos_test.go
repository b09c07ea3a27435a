package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// chaos is an installation of two workers and two apis at which everything is killed.
type chaos struct {
	*glovebox
	*ledger
	apis    []*service
	workers []*service
	clients []*producer.Client
	records *record.Store
	jobs    int // at least

	outstanding chan struct{}  // bounds the jobs that have no result yet
	watching    sync.WaitGroup // for results, and to cancel
}

// TestChaos kills processes at every named step of a job and at random moments, and
// restarts Redis, S3 and Podman, while jobs of every kind run. Then it counts.
//
// GLOVEBOX_CHAOS_KILLS is how often each fault happens (1, or 5 with `make chaos`),
// GLOVEBOX_CHAOS_JOBS how many jobs run at least.
func TestChaos(t *testing.T) {
	t.Parallel()
	kills, jobs := gbtest.Number(t, "GLOVEBOX_CHAOS_KILLS", 1), gbtest.Number(t, "GLOVEBOX_CHAOS_JOBS", 40)
	full := kills > 1
	c := startChaos(t, jobs, full)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	var readers, faults sync.WaitGroup
	readers.Go(func() { c.readAgain(ctx) })
	readers.Go(func() { c.receive(ctx) })
	happened := &tally{}
	over := make(chan struct{})
	c.startFaults(&faults, kills, happened, func(s *service) { readers.Go(func() { c.steady(ctx, s) }) })
	go func() { faults.Wait(); close(over) }()
	submitted := c.submitAll(ctx, over)
	<-over
	t.Logf("%d jobs were accepted in %.0f s, faults: %s", submitted, time.Since(c.began).Seconds(), happened)

	drained := time.Now()
	ok := within(patience, func() bool { return c.allEnded(submitted) })
	t.Logf("the last result was there %.1f s after the last fault, ok %v", time.Since(drained).Seconds(), ok)
	var left []string
	within(patience-time.Since(drained), func() bool { left = c.left(full); return len(left) == 0 })
	t.Logf("nothing was left %.1f s after the last fault: %v", time.Since(drained).Seconds(), len(left) == 0)
	c.settle(ctx)
	stop()
	readers.Wait()
	c.watching.Wait()
	c.count(left)
	c.stopWorkers()
}

// startChaos starts the installation. In full, sandboxes of one of its workers go on from snapshots.
func startChaos(t *testing.T, jobs int, full bool) *chaos {
	t.Helper()
	preload := []string{"GLOVEBOX_PRELOAD=0", "GLOVEBOX_PRELOAD=0"}
	if full {
		preload[1] = "GLOVEBOX_SNAPSHOTS=always"
	}
	schedule := "GLOVEBOX_WEBHOOK_SCHEDULE=0s,1s,1s,2s,2s,4s,4s,8s,8s,8s,8s,8s"
	c := &chaos{
		glovebox: start(t, options{noWorker: true, hookFails: 5}),
		ledger:   newLedger(), jobs: jobs, outstanding: make(chan struct{}, 24),
	}
	second := gbtest.Addr(t)
	c.api.Kill() // its like is not waited for: it may start while Redis is away
	for i, addr := range []string{c.addr, second} {
		c.apis = append(c.apis, &service{name: fmt.Sprintf("api %d", i+1), Process: gbtest.Start(t,
			[]string{binary(t, "glovebox"), "api"}, c.apiEnv(addr, schedule), nil)})
	}
	for i := range 2 {
		c.workers = append(c.workers, &service{name: fmt.Sprintf("worker %d", i+1), Process: gbtest.Start(t,
			[]string{binary(t, "glovebox-worker")}, c.workerEnv(append(oneOfEach(t, 2), "GLOVEBOX_GRACE_SECONDS=3", preload[i], "GLOVEBOX_PRICES=run=200,cpu_second=14000,gib_second=4500")...), nil)})
		c.mostWarm += kinds(t)
	}
	other, err := producer.New("http://"+second, c.token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	c.clients = []*producer.Client{c.client, other}
	if c.records, err = record.Open(t.Context(), record.Config{URL: c.redis.URL()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.records.Close() })
	if !within(patience, c.runtimesPublished) {
		t.Fatal("no worker published its runtimes")
	}
	return c
}

// submitAll submits jobs until there are enough and the faults are over, and returns
// how many were accepted.
func (c *chaos) submitAll(ctx context.Context, over <-chan struct{}) int {
	accepted := 0
	for n := 0; ; n++ {
		select {
		case <-over:
			if accepted >= c.jobs {
				return accepted
			}
		default:
		}
		select {
		case c.outstanding <- struct{}{}:
		case <-time.After(patience):
			c.problem("no job ended for 3 minutes")
			return accepted
		}
		id, ok := c.trySubmit(ctx, n)
		if !ok {
			<-c.outstanding
			continue
		}
		accepted++
		c.accept(id)
		c.watching.Go(func() {
			c.watch(ctx, id)
			<-c.outstanding
		})
		if samples[n%len(samples)].name == canceled {
			c.watching.Go(func() { c.cancelSoon(ctx, id) })
		}
	}
}

// trySubmit submits the nth job once. Whether a call that failed was accepted is not
// known: if it was, its job too has to come to its end.
func (c *chaos) trySubmit(ctx context.Context, n int) (id string, ok bool) {
	spec := samples[n%len(samples)].spec(n)
	spec.Metadata = map[string]string{"n": strconv.Itoa(n)}
	spec.Priority = []job.Priority{job.Normal, job.High, job.Low}[n%3]
	if n%4 != 0 {
		spec.Callback = &job.Callback{URL: c.hook.url}
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	j, err := c.anyClient().Submit(ctx, spec)
	var invalid job.Invalid
	if errors.As(err, &invalid) {
		c.problem("job %d was refused: %v", n, err)
	}
	if err != nil {
		time.Sleep(100 * time.Millisecond)
	}
	return j.ID, err == nil
}

func (c *chaos) anyClient() *producer.Client { return c.clients[rand.IntN(len(c.clients))] }

func (c *chaos) watch(ctx context.Context, id string) {
	for ctx.Err() == nil {
		j, err := c.anyClient().Wait(ctx, id)
		switch {
		case err == nil:
			c.saw("the one who waited", *j.Result)
			return
		case errors.Is(err, job.ErrNotFound):
			c.problem("job %s was accepted, and is not there", id)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (c *chaos) cancelSoon(ctx context.Context, id string) {
	time.Sleep(rand.N(4 * time.Second))
	for ctx.Err() == nil {
		_, err := c.anyClient().Cancel(ctx, id)
		if err == nil {
			c.cancel(id)
		}
		if err == nil || errors.Is(err, job.ErrEnded) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// readAgain reads results that somebody has seen before.
func (c *chaos) readAgain(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
		ids := c.ended()
		if len(ids) == 0 {
			continue
		}
		if j, err := c.anyClient().Get(ctx, ids[rand.IntN(len(ids))]); err == nil && !j.Ended() {
			c.problem("job %s had a result and is %s", j.ID, j.Status)
		} else if err == nil {
			c.saw("a later reader", *j.Result)
		}
	}
}

// receive notes the webhook's messages.
func (c *chaos) receive(ctx context.Context) {
	for seen := 0; ; {
		messages := c.hook.messages(c.tb, 0, 0)
		for _, m := range messages[seen:] {
			c.received(m)
		}
		seen = len(messages)
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// settle gives the reader of messages time for the last of them.
func (*chaos) settle(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(500 * time.Millisecond):
	}
}
