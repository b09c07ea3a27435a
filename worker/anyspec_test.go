package worker_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// TestAnySpec: whatever passes the check comes to a result that is the job's own, at the
// first attempt. Specs are random, but the same for the same GLOVEBOX_ANY_SEED;
// GLOVEBOX_ANY_SPECS says how many. Some wait for a warm sandbox, some get a preloaded one.
func TestAnySpec(t *testing.T) {
	t.Parallel()
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	g := start(t, func(c *worker.Config) {
		c.Concurrency, c.MemoryMB = 3, 4096
		keepWarm(t, c.Sandboxes.(*podman.Sandboxes), set, "python", "bash")
	})
	seed, count := number(t, "GLOVEBOX_ANY_SEED", 1), number(t, "GLOVEBOX_ANY_SPECS", 40)
	ids, specs, statuses := make([]string, count), make([]job.Spec, count), map[job.Status]int{}
	for i := range count {
		specs[i] = anySpec(seed, i, set)
		ids[i] = g.submitAsIs(specs[i])
	}
	for i, id := range ids {
		// A second epoch is a failure of ours; what follows takes minutes and says no more.
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
			j, err := g.records.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if j.State.Final() && j.Epoch == 1 {
				if r := g.result(id); r.Status != job.InternalError && r.Error == nil {
					statuses[r.Status]++
					break
				}
			}
			if j.State.Final() || j.Epoch > 1 || time.Now().After(deadline) {
				b, _ := json.Marshal(specs[i])
				t.Errorf("GLOVEBOX_ANY_SEED=%d, spec %d: %s, epoch %d\n%.3000s\n%s", seed, i, j.State, j.Epoch, b, g.linesOf(id))
				break
			}
		}
	}
	t.Logf("seed %d, %d specs: %v", seed, count, statuses)
	if len(statuses) < 3 {
		t.Errorf("the specs come to %v only: they are not as different as they should be", statuses)
	}
}

func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	word := os.Getenv(variable)
	if word == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// keepWarm keeps a sandbox of each of the runtimes, preloaded where that can be.
func keepWarm(t *testing.T, p *podman.Sandboxes, set runtimes.Set, names ...string) {
	t.Helper()
	warm := podman.Warm{Images: map[string]job.Limits{}, Preloads: map[string]podman.Preload{}, MaxMemoryMB: 1024, Most: 2, MemoryMB: 1000}
	for _, name := range names {
		r, ok := set.Lookup(name)
		if !ok {
			t.Fatalf("there is no runtime %s", name)
		}
		if _, err := p.SelfTest(t.Context(), r.Image()); err != nil {
			t.Fatal(err)
		}
		warm.Images[r.Image()] = job.Limits{}.Filled(r.Limits)
		if r.Preload != nil {
			_, command := r.Command("", nil)
			warm.Preloads[r.Image()] = podman.Preload{Command: command, Env: r.Env, MemoryMB: r.Preload.MemoryMB}
		}
	}
	p.KeepWarm(t.Context(), warm)
}

// linesOf are what the log says of a job.
func (g *glovebox) linesOf(id string) string {
	var lines []string
	for line := range strings.Lines(g.log.String()) {
		if strings.Contains(line, id) {
			lines = append(lines, fmt.Sprintf("%.2000s", line))
		}
	}
	return strings.Join(lines, "")
}
