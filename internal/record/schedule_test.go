package record

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// orderedFirer notes what it is asked for.
type orderedFirer struct {
	mu      sync.Mutex
	decided map[string]time.Time
	started map[string]time.Time
	early   int // starts before all were decided
	all     int
}

func (f *orderedFirer) Decide(_ context.Context, _, name string, now time.Time) (start bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decided[name] = now
	return name != "none", nil
}

func (f *orderedFirer) Start(_ context.Context, _, name string, now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.decided) < f.all {
		f.early++
	}
	f.started[name] = now
	return nil
}

// TestFireSchedules: all that is due at one time is decided, as of one time, before anything is started, which may be slow.
func TestFireSchedules(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Config{URL: gbtest.Redis(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	due := time.Now().Add(-time.Second)
	f := &orderedFirer{decided: map[string]time.Time{}, started: map[string]time.Time{}, all: job.MaxSchedules}
	for i := range f.all {
		name := fmt.Sprintf("s%02d", i)
		if i == 0 {
			name = "none"
		}
		sc := Schedule{Name: name, ScheduleSettings: job.ScheduleSettings{Template: "x", Cron: "* * * * *"}, Seed: "s", Next: due}
		if err := s.SetSchedule(t.Context(), "default", sc, due); err != nil {
			t.Fatal(err)
		}
	}
	w := &Sweeper{Records: s, Log: slog.New(slog.DiscardHandler), Fire: f}
	if err := w.fireSchedules(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	if len(f.decided) != f.all || len(f.started) != f.all-1 || f.early > 0 {
		t.Errorf("%d were decided and %d started, %d of them early", len(f.decided), len(f.started), f.early)
	}
	times := map[time.Time]bool{}
	for _, at := range f.decided {
		times[at] = true
	}
	if len(times) != 1 {
		t.Errorf("they were decided as of %d times", len(times))
	}
}
