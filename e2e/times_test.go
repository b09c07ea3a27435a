package e2e

import (
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// TestTimes: a job starts soon after its run_at and never before, and one that waits until
// its deadline has passed never starts.
func TestTimes(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	at := time.Now().Add(4 * time.Second)
	scheduled := g.submit(job.Spec{Runtime: "bash", Source: "echo hello", RunAt: at})
	r := g.wait(scheduled)
	if r.Status != job.Succeeded || r.Timing.RunAt == nil {
		t.Fatalf("got %+v", r)
	}
	after := r.Timing.StartedAt.Sub(at.Truncate(time.Millisecond))
	t.Logf("it started %s after its run_at", after)
	if after < 0 || after > gbtest.AtOnce { // 2 s on a machine that has nothing else to do
		t.Errorf("it started %s after its run_at", after)
	}
	if r.Timing.QueueMS > after.Milliseconds()+1 {
		t.Errorf("queue_ms is %d, want what it waited since run_at, %s", r.Timing.QueueMS, after)
	}
	// Both slots are taken when the deadline of a third job passes.
	long := job.Spec{Runtime: "bash", Source: "sleep 60", Limits: job.Limits{WallMS: 100_000}}
	var taken []string
	for range 2 {
		taken = append(taken, g.submit(long))
	}
	for _, id := range taken {
		running := func() bool { j, err := g.client.Get(t.Context(), id); return err == nil && j.Status == job.Running }
		if !within(patience, running) {
			t.Fatalf("job %s does not start", id)
		}
	}
	late := g.submit(job.Spec{
		Runtime: "bash", Source: "echo hello", Deadline: time.Now().Add(3 * time.Second), Callback: &job.Callback{URL: g.hook.url},
	})
	if r := g.wait(late); r.Status != job.Canceled || r.Error == nil || r.Error.Code != job.CodeDeadlineExceeded || r.Timing.StartedAt != nil {
		t.Errorf("got %+v, error %+v", r, r.Error)
	}
	if m := g.hook.messages(t, 1, patience); m[0].Result.ID != late {
		t.Errorf("got a message about %s, want %s", m[0].Result.ID, late)
	}
	for _, id := range taken {
		if _, err := g.client.Cancel(t.Context(), id); err != nil {
			t.Error(err)
		}
		g.wait(id)
	}
}
