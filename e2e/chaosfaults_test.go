package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/gbtest"
)

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
