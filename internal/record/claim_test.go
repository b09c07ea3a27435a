package record

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/job"
)

// spent is what something cost Redis: round trips, and commands, those of scripts too.
type spent struct{ trips, commands int }

func (s *Store) spends(t *testing.T, what func()) spent {
	t.Helper()
	var trips atomic.Int64
	s.rdb.AddHook(slow(func() { trips.Add(1) }))
	count := func() (n int) {
		for line := range strings.Lines(s.rdb.Info(t.Context(), "commandstats").Val()) {
			_, calls, _ := strings.Cut(line, ":calls=")
			calls, _, _ = strings.Cut(calls, ",")
			if c, err := strconv.Atoi(calls); err == nil {
				n += c
			}
		}
		return n
	}
	before := count()
	trips.Store(0)
	what()
	got := spent{trips: int(trips.Load())}
	got.commands = count() - before - 1 // the first count itself
	return got
}

// TestCostOfSweeping: what a pass costs grows with what is due, not with the number of
// tenants that have some of it times what asynq holds.
func TestCostOfSweeping(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	const tenants = 50
	for n := range tenants {
		if err := s.Create(ctx, job.NewID(fmt.Sprint("t", n)), job.Spec{Runtime: "python"}, ""); err != nil {
			t.Fatal(err)
		}
	}
	w.forward(time.Minute)
	got := s.spends(t, func() { w.pass(ctx, openPass, w.sweepOpen) })
	t.Logf("a pass over %d tenants with one job each to look at: %d round trips, %d commands", tenants, got.trips, got.commands)
	if got.trips > 10 || got.commands > 10*tenants {
		t.Errorf("it took %d round trips and %d commands, want 10 and %d at most", got.trips, got.commands, 10*tenants)
	}
	got = s.spends(t, func() { w.pass(ctx, openPass, w.sweepOpen) })
	if got.trips > 2 || got.commands > tenants+5 {
		t.Errorf("with nothing due it took %d round trips and %d commands, want 2 and %d at most", got.trips, got.commands, tenants+5)
	}
}

// TestClaim: what is due is one process', until it is due again.
func TestClaim(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	s.resize(t, 20)
	for range 40 {
		if err := s.Create(ctx, job.NewID("default"), job.Spec{Runtime: "python"}, ""); err != nil {
			t.Fatal(err)
		}
	}
	due := int(s.rdb.ZCard(ctx, openKey("default")).Val())
	w.forward(time.Minute)
	c := claims{set: "open", until: s.now().Add(recheckDelay), record: "job:", fields: []string{"epoch", "priority"}}
	var mu sync.Mutex
	claimed := map[string]int{}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			list, errs, err := w.claim(ctx, []string{"default", "another"}, c)
			if err != nil || len(errs) > 0 {
				t.Error(err, errs)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, d := range list {
				if claimed[d.id]++; d.tenant != "default" || !slices.Equal(d.fields, []string{"1", "normal"}) {
					t.Errorf("got %+v", d)
				}
			}
		})
	}
	all.Wait()
	for id, n := range claimed {
		if n != 1 {
			t.Errorf("%s was claimed by %d of them", id, n)
		}
	}
	if len(claimed) != due || due == 0 {
		t.Errorf("%d of %d were claimed", len(claimed), due)
	}
	w.forward(time.Minute + recheckDelay)
	if list, _, err := w.claim(ctx, []string{"default"}, c); err != nil || len(list) != due {
		t.Errorf("later %d are due again, %v, want %d", len(list), err, due)
	}
}

// TestRescheduleNeverHastens: what was put off for longer meanwhile stays so. A receiver that
// asked for an hour gets it, whatever the sweeper saw before.
func TestRescheduleNeverHastens(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	id, url := job.NewID("default"), "https://example.com"
	if err := s.Create(ctx, id, job.Spec{Runtime: "python", Callback: &job.Callback{URL: url}}, ""); err != nil {
		t.Fatal(err)
	}
	j, err := s.Start(ctx, id, 1, "w1")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.End(ctx, j, Ending{Status: job.Succeeded, Result: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	d, err := s.GetDelivery(ctx, "default", DeliveryID(id, job.EventCompleted, url))
	if err != nil {
		t.Fatal(err)
	}
	hour := time.Now().Add(time.Hour)
	if err := s.Attempted(ctx, d, Outcome{State: Pending, Status: 429, Problem: "later", Next: hour}, Pace{Most: 16}); err != nil {
		t.Fatal(err)
	}
	if err := w.reschedule(ctx, outboxKey("default"), d.ID, time.Now().Add(recheckDelay)); err != nil {
		t.Fatal(err)
	}
	if at := s.rdb.ZScore(ctx, outboxKey("default"), d.ID).Val(); int64(at) != ms(hour) {
		t.Errorf("it is due at %d, want %d", int64(at), ms(hour))
	}
	// And where the sweeper finds its task missing, that is for then.
	inspector := asynq.NewInspectorFromRedisClient(s.rdb)
	if _, err := inspector.DeleteAllScheduledTasks(queue.Delivery); err != nil {
		t.Fatal(err)
	}
	if _, err := inspector.DeleteAllPendingTasks(queue.Delivery); err != nil {
		t.Fatal(err)
	}
	if err := s.rdb.ZAdd(ctx, outboxKey("default"), redis.Z{Score: 1, Member: d.ID}).Err(); err != nil {
		t.Fatal(err)
	}
	if err := w.sweepOutbox(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	later, err := inspector.ListScheduledTasks(queue.Delivery)
	if err != nil || len(later) != 1 || later[0].NextProcessAt.Before(hour.Truncate(time.Second)) || len(tasks(t, s, queue.Delivery)) > 0 {
		t.Errorf("got %d for later and %v now, %v: want one, at %s", len(later), tasks(t, s, queue.Delivery), err, hour)
	}
}

// TestPassIsMadeOnce: one of them makes a pass for all, and another where it died.
func TestPassIsMadeOnce(t *testing.T) {
	t.Parallel()
	one, _ := sweeping(t)
	other := &Sweeper{Records: one.Records, Log: one.Log}
	made := 0
	p := pass{name: openPass, interval: time.Hour, shared: true, step: func(context.Context, ...string) error { made++; return nil }}
	for _, w := range []*Sweeper{one, other, one} {
		w.turn(t.Context(), p)
	}
	if made != 1 {
		t.Errorf("the pass was made %d times, want once", made)
	}
	if left := one.Records.rdb.PTTL(t.Context(), passKey(openPass)).Val(); left <= 0 || left >= p.interval {
		t.Errorf("who makes the pass has it for %s, want less than its interval", left)
	}
	if err := one.Records.rdb.Del(t.Context(), passKey(openPass)).Err(); err != nil { // as it lapses
		t.Fatal(err)
	}
	other.turn(t.Context(), p)
	p.shared = false
	one.turn(t.Context(), p)
	if made != 3 {
		t.Errorf("passes were made %d times, want 3", made)
	}
}
