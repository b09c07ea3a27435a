package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/failpoint"
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

// service is a process that is started again whenever it ended, as systemd does.
type service struct {
	*gbtest.Process
	name string
}

// fault is what happens to a service: death at a step, at a random moment, or SIGTERM.
type fault string

const (
	randomKill fault = "kill -9"
	drain      fault = "SIGTERM"
)

// startFaults starts a goroutine for each service, and one for Redis, S3 and Podman.
// Each hands its service over once its faults have happened.
func (c *chaos) startFaults(wg *sync.WaitGroup, kills int, happened *tally, after func(*service)) {
	start := func(services []*service, steps ...string) {
		faults := make(chan fault, 1000)
		var all []fault
		for range kills {
			for _, s := range steps {
				all = append(all, fault(s))
			}
			all = append(all, randomKill, drain)
		}
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, f := range all {
			faults <- f
		}
		close(faults)
		for _, s := range services {
			wg.Go(func() {
				s.Kill() // it may have run something: that counts as well
				c.note(s, 0, happened)
				for f := range faults {
					c.suffer(s, f, happened)
				}
				after(s)
			})
		}
	}
	start(c.workers, workerSteps...)
	start(c.apis, failpoint.Released, failpoint.RecordCreated, failpoint.DeliverySent)
	wg.Go(func() {
		for range kills {
			for name, p := range map[string]*gbtest.Process{"Redis": c.redis.Process, "S3": c.s3.Process, "Podman": c.podman.Process} {
				time.Sleep(time.Second + rand.N(2*time.Second))
				if rand.IntN(2) == 0 {
					p.Kill()
				} else {
					p.Stop()
				}
				time.Sleep(rand.N(1500 * time.Millisecond))
				p.Restart()
				happened.add(name + " restarted")
			}
		}
	})
}

// suffer starts the service and lets f happen to it.
func (c *chaos) suffer(s *service, f fault, happened *tally) {
	file, step := "", f != randomKill && f != drain
	if step {
		file = c.file(strings.ReplaceAll(fmt.Sprintf("%s-%s-%d", s.name, f, rand.Uint64()), " ", "-"))
		s.Setenv("GLOVEBOX_FAILPOINT", fmt.Sprintf("kill:%s:%s", f, file))
	} else {
		s.Setenv("GLOVEBOX_FAILPOINT", "")
	}
	from := len(s.Output())
	s.Restart()
	if !step {
		time.Sleep(time.Second + rand.N(4*time.Second))
		if f == drain {
			s.Stop()
		} else {
			s.Kill()
			c.note(s, from, happened)
		}
		happened.add(string(f))
		return
	}
	for deadline := time.Now().Add(patience); ; {
		select {
		case <-s.Done():
			if _, err := os.Stat(file); err == nil {
				c.note(s, from, happened)
				happened.add(string(f))
				return
			}
			c.problem("%s ended though nobody killed it: what is away, it has to wait for; %s", s.name, s.LastWords())
			time.Sleep(200 * time.Millisecond)
			s.Restart()
		case <-time.After(time.Until(deadline)):
			c.problem("%s did not come to %s within 2 minutes", s.name, f)
			s.Kill()
			c.note(s, from, happened)
			return
		}
	}
}

var workerLine = regexp.MustCompile(`msg="worker (?:takes jobs|goes on)[^"]*" worker=(\S+)`)

// note counts which jobs lost their worker by its death just now. from is where the
// output of its last life begins.
func (c *chaos) note(s *service, from int, happened *tally) {
	lines := workerLine.FindAllStringSubmatch(s.Output()[from:], -1)
	if len(lines) == 0 {
		return
	}
	worker := lines[len(lines)-1][1]
	var running map[string]string
	if !within(patience, func() (ok bool) { // Redis may be away as well
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var err error
		running, err = c.records.Redis().HGetAll(ctx, "gb:{default}:running").Result()
		return err == nil
	}) {
		c.problem("Redis did not say what %s ran when it was killed", s.name)
	}
	for id, at := range running {
		if strings.HasSuffix(at, " "+worker) {
			c.lose(id)
			happened.add("job lost its worker")
		}
	}
}

// steady starts the service for good. Whatever is away as it starts, it has no reason to end.
func (c *chaos) steady(ctx context.Context, s *service) {
	s.Setenv("GLOVEBOX_FAILPOINT", "")
	s.Restart()
	select {
	case <-ctx.Done():
	case <-s.Done():
		c.problem("%s ended though nobody killed it: %s", s.name, s.LastWords())
	}
}

// tally counts faults by name.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *tally) add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[name]++
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for name, n := range t.counts {
		parts = append(parts, fmt.Sprintf("%s ×%d", name, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// within reports whether ok became true in time.
func within(d time.Duration, ok func() bool) bool {
	for deadline := time.Now().Add(d); ; time.Sleep(500 * time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}
