package worker_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// TestAskedByItsOperator: sandboxes wait that an operator asked all workers for, on each its part, and no longer than
// that holds.
func TestAskedByItsOperator(t *testing.T) {
	t.Parallel()
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	bash, _ := set.Lookup("bash")
	warm := func(concurrency int) func(*worker.Config) {
		return func(c *worker.Config) {
			c.Concurrency = concurrency
			keepWarm(t, c.Sandboxes.(*podman.Sandboxes), set, "bash")
		}
	}
	g := start(t, warm(2))
	other := g.another(warm(1))
	admin, err := record.Open(t.Context(), record.Config{URL: g.redis.Admin()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	rdb := admin.Redis().(*redis.Client)
	wait := func(what string, here, there int) {
		t.Helper()
		defer func() {
			if t.Failed() {
				t.Logf("%d wait here, for %d, and %d there, for %d", g.sandboxes.WarmOf(bash.Image()), here, other.sandboxes.WarmOf(bash.Image()), there)
			}
		}()
		gbtest.Eventually(t, what, func() bool {
			return g.sandboxes.WarmOf(bash.Image()) == here && other.sandboxes.WarmOf(bash.Image()) == there
		})
	}
	wait("one waits on each", 1, 1)
	if err := fleet.Ask(t.Context(), rdb, "bash", 6, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := fleet.Ask(t.Context(), rdb, "no such runtime", 6, time.Hour); err != nil {
		t.Fatal(err)
	}
	wait("each has its part", 4, 2)
	gbtest.Eventually(t, "they say so, and what they have room for", func() bool {
		list, unreadable, err := fleet.List(t.Context(), rdb)
		if err != nil || len(unreadable) > 0 || len(list) != 2 {
			t.Fatal(list, unreadable, err)
		}
		return list[0].Warm["bash"]+list[1].Warm["bash"] == 6 && list[0].WarmRoom["bash"] == 1000/podman.IdleMB && list[0].WarmRoom["python"] == 0
	})
	// A drained worker keeps what it has, and the other has the part of it.
	if err := fleet.Drain(t.Context(), rdb, other.id, nil); err != nil {
		t.Fatal(err)
	}
	wait("the other has all", 6, 2)
	if r := g.result(g.submit(job.Spec{Runtime: "bash", Source: "echo hello"})); r.Status != job.Succeeded {
		t.Errorf("got %s", r.Status)
	}
	if err := fleet.Ask(t.Context(), rdb, "bash", 0, 0); err != nil {
		t.Fatal(err)
	}
	gbtest.Eventually(t, "those that nobody asks for any more are gone", func() bool { return g.sandboxes.WarmOf(bash.Image()) <= 2 })
}
