package autoscale

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)

// needed is what one look at these tenants asks for, of workers with four slots.
func needed(t *testing.T, l Load) int {
	t.Helper()
	s, err := New(Policy{Slots: 4, Sessions: 10, Service: 2 * time.Second, Clear: 3 * time.Minute, Boot: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	l.At = start
	return s.Next(l).Needed
}

// TestNeeded: without a past, a queue of B jobs of 2 s wants B × 2 s ÷ (3 min − 1 min of boot) slots.
func TestNeeded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		load Load
		want int
	}{
		{"nothing", Load{}, 0},
		{"a tenant without jobs", Load{Tenants: []Tenant{{Name: "a"}}}, 0},
		{"one job", Load{Tenants: []Tenant{{Name: "a", Queued: 1}}}, 1},
		{"one that comes due before a worker has started", Load{Tenants: []Tenant{{Name: "a", Soon: 1}}}, 1},
		{"a session", Load{Sessions: 3}, 1},
		{"more sessions than a worker holds", Load{Sessions: 21}, 3},
		{"sessions and jobs side by side", Load{Sessions: 21, Tenants: []Tenant{{Name: "a", Running: 17}}}, 5},
		{"600 jobs are ten slots", Load{Tenants: []Tenant{{Name: "a", Queued: 600}}}, 3},
		{"600 of two tenants are, too", Load{Tenants: []Tenant{{Name: "a", Queued: 300}, {Name: "b", Queued: 300}}}, 3},
		{"a quota bounds its tenant", Load{Tenants: []Tenant{{Name: "a", Queued: 100_000, Quota: 2}}}, 1},
		{"and nobody else", Load{Tenants: []Tenant{{Name: "a", Queued: 100_000, Quota: 2}, {Name: "b", Queued: 600}}}, 3},
		{"what runs keeps its slot", Load{Tenants: []Tenant{{Name: "a", Running: 17}}}, 5},
		{"what waits comes on top", Load{Tenants: []Tenant{{Name: "a", Running: 16, Queued: 240}}}, 5},
		{"late ones twice as fast", Load{Oldest: 6 * time.Minute, Tenants: []Tenant{{Name: "a", Queued: 600}}}, 5},
		{"never more slots than jobs", Load{Oldest: 24 * time.Hour, Tenants: []Tenant{{Name: "a", Queued: 8}}}, 2},
		{"never more than may be", Load{Tenants: []Tenant{{Name: "a", Queued: 10_000_000}}}, 100},
		{"counts that nobody can have written", Load{Tenants: []Tenant{{Name: "a", Queued: -5, Running: -1, Soon: -3}}}, 0},
	} {
		if got := needed(t, c.load); got != c.want {
			t.Errorf("%s: got %d, want %d", c.what, got, c.want)
		}
	}
}

func TestPolicyIsChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy Policy
		says   string
	}{
		{Policy{Slots: -1}, "slots is -1: want 1 to 1000"},
		{Policy{Sessions: -1}, "sessions is -1: want 0 to 1000"},
		{Policy{Most: 20_000}, "max is 20000: want 1 to 10000"},
		{Policy{Least: 101}, "min is 101: want 0 to max, which is 100"},
		{Policy{Least: -1}, "min is -1"},
		{Policy{Boot: time.Millisecond}, "boot is 1ms: want 1s to 1h"},
		{Policy{Clear: time.Minute}, "clear is 1m0s: want more than boot, which is 1m0s"},
		{Policy{Service: 2 * time.Hour}, "service is 2h0m0s"},
		{Policy{Hold: time.Second}, "hold is 1s: want 1m to 24h"},
		{Policy{Spare: -1}, "spare is -1: want 0 to 10"},
		{Policy{Shrink: 2}, "shrink is 2: want 0.01 to 1"},
	} {
		if _, err := New(c.policy); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: got %v, want %q", c.policy, err, c.says)
		}
	}
}

// clock is a scaler that is asked every 15 s.
type clock struct {
	*Scaler
	t     *testing.T
	at    time.Time
	ended int64
}

func newClock(t *testing.T, p Policy) *clock {
	t.Helper()
	s, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	return &clock{Scaler: s, t: t, at: start}
}

func (c *clock) next(l Load) Decision {
	c.t.Helper()
	c.at = c.at.Add(15 * time.Second)
	l.At = c.at
	return c.Next(l)
}

// stream is a look at a tenant whose jobs come and end at that rate, a second, and run for that many seconds.
func (c *clock) stream(rate, service float64) Decision {
	c.t.Helper()
	c.ended += int64(rate * 15)
	return c.next(Load{Workers: c.wanted, Tenants: []Tenant{{Name: "a", Running: int64(rate * service), Ended: c.ended}}})
}

// TestStream: 10 jobs of 2 s a second use 20 slots, and 1.5 × √20 are kept for jitter: 27 slots, 7 workers.
func TestStream(t *testing.T) {
	t.Parallel()
	c := newClock(t, Policy{Slots: 4})
	var d Decision
	for range 120 {
		d = c.stream(10, 2)
	}
	if d.Needed != 7 || d.Wanted != 7 {
		t.Errorf("got %+v, want 7 workers", d)
	}
	if d.ArrivalsPerSecond < 9.5 || d.ArrivalsPerSecond > 11.5 || d.ServiceMS < 1900 || d.ServiceMS > 2100 {
		t.Errorf("got %+v, want 10 jobs a second of 2 s", d)
	}
}

// TestHoldsAndGoesToZero: after a stream has ended its workers stay for the time of hold, then go
// by a quarter a minute, to none.
func TestHoldsAndGoesToZero(t *testing.T) {
	t.Parallel()
	c := newClock(t, Policy{Slots: 4})
	for range 120 {
		c.stream(10, 2)
	}
	over := c.at
	idle := func() Decision {
		return c.next(Load{Workers: c.wanted, Tenants: []Tenant{{Name: "a", Ended: c.ended}}})
	}
	last := c.wanted
	for c.wanted > 0 {
		d := idle()
		if d.Wanted > last {
			t.Fatalf("%s after the end: got %+v, want no more than the %d before", c.at.Sub(over), d, last)
		}
		if d.Wanted < last && last-d.Wanted > max(last/4, 1) {
			t.Errorf("%s after the end: %d of %d workers go at once", c.at.Sub(over), last-d.Wanted, last)
		}
		if c.at.Sub(over) < 5*time.Minute && d.Wanted < 6 {
			t.Errorf("%s after the end: got %+v, want the workers to stay", c.at.Sub(over), d)
		}
		if c.at.Sub(over) > 20*time.Minute {
			t.Fatalf("20 minutes after the end: got %+v, want none", d)
		}
		last = d.Wanted
	}
	t.Logf("none %s after the end", c.at.Sub(over))
	if d := c.next(Load{Tenants: []Tenant{{Name: "b", Queued: 1}}}); d.Wanted != 1 {
		t.Errorf("the first job after that: got %+v, want a worker at once", d)
	}
}

// TestNothingChangesWhilePaused: a queue that grows because most workers are paused asks for no more.
func TestNothingChangesWhilePaused(t *testing.T) {
	t.Parallel()
	c := newClock(t, Policy{Slots: 4})
	for range 40 {
		c.stream(10, 2)
	}
	before := c.wanted
	for n := range 40 {
		d := c.next(Load{Workers: before / 2, Paused: before - before/2, Tenants: []Tenant{{Name: "a", Queued: int64(n) * 1000, Ended: c.ended}}})
		if d.Wanted != before {
			t.Fatalf("got %+v, want %d as before", d, before)
		}
	}
	if d := c.next(Load{Workers: before, Tenants: []Tenant{{Name: "a", Queued: 10_000, Ended: c.ended}}}); d.Wanted <= before {
		t.Errorf("they are back: got %+v, want more than %d", d, before)
	}
}

// TestFewPaused: one paused worker keeps none from coming, and all from going.
func TestFewPaused(t *testing.T) {
	t.Parallel()
	c := newClock(t, Policy{Slots: 4, Hold: time.Minute})
	for range 40 {
		c.stream(10, 2)
	}
	before := c.wanted
	d := c.next(Load{Workers: before - 1, Paused: 1, Tenants: []Tenant{{Name: "a", Queued: 10_000, Ended: c.ended}}})
	if d.Wanted <= before || d.Wanted != d.Needed {
		t.Fatalf("got %+v, want more than %d", d, before)
	}
	before = d.Wanted
	for range 100 {
		if d := c.next(Load{Workers: before - 1, Paused: 1}); d.Wanted != before {
			t.Fatalf("got %+v, want %d as before", d, before)
		}
	}
}

// TestNow: who asks once is told what is needed now, of fewer than there are, too; but not while some are paused.
func TestNow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		load Load
		want int
	}{
		{Load{At: start, Workers: 10}, 0},
		{Load{At: start, Workers: 10, Tenants: []Tenant{{Name: "a", Running: 17}}}, 5},
		{Load{At: start, Workers: 1, Tenants: []Tenant{{Name: "a", Running: 17}}}, 5},
		{Load{At: start, Workers: 8, Paused: 2}, 10},
		{Load{At: start, Workers: 1, Paused: 9}, 10},
	} {
		s, err := New(Policy{Slots: 4})
		if err != nil {
			t.Fatal(err)
		}
		if d := s.Now(c.load); d.Wanted != c.want {
			t.Errorf("%+v: got %+v, want %d", c.load, d, c.want)
		}
	}
}

// TestGap: after figures have been missing for long, nothing goes until a whole hold has been seen, and what
// happened in between is no rate.
func TestGap(t *testing.T) {
	t.Parallel()
	c := newClock(t, Policy{Slots: 4})
	for range 60 {
		c.stream(10, 2)
	}
	before := c.wanted
	c.at = c.at.Add(time.Hour)
	c.ended += 1_000_000
	d := c.stream(0, 0)
	if d.Wanted != before || d.ArrivalsPerSecond > 0 {
		t.Errorf("got %+v, want %d workers as before the gap, and no rate", d, before)
	}
}

// TestAnyLoad: whatever is seen, the number is within its bounds, has a slot for each job that runs, does not fall where
// one more job waits, is none only where there is nothing, and what is beyond a quota changes nothing.
func TestAnyLoad(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test's
	for range 2000 {
		p := Policy{Slots: 1 + rng.IntN(8), Least: rng.IntN(3), Most: 3 + rng.IntN(200)}
		s, more, beyond := newClock(t, p), newClock(t, p), newClock(t, p)
		last := -1
		for range 1 + rng.IntN(40) {
			l := anyLoad(rng)
			larger, over := l, l
			larger.Tenants, over.Tenants = append([]Tenant{}, l.Tenants...), append([]Tenant{}, l.Tenants...)
			for i := range l.Tenants {
				larger.Tenants[i].Queued += int64(rng.IntN(50))
				if x := &over.Tenants[i]; x.Quota > 0 && x.Queued+x.Running >= x.Quota {
					x.Queued += int64(rng.IntN(1000))
				}
			}
			d, m := s.next(l), more.next(larger)
			if d.Wanted < p.Least || d.Wanted > p.Most || d.Needed > p.Most {
				t.Fatalf("got %+v, want %d to %d", d, p.Least, p.Most)
			}
			if want := min((d.Running+p.Slots-1)/p.Slots, p.Most); d.Needed < want {
				t.Fatalf("got %+v, want %d workers for those that run", d, want)
			}
			if d.Needed == 0 && d.Running+d.Waiting > 0 {
				t.Fatalf("got %+v, though there are jobs", d)
			}
			if l.Paused == 0 && d.Wanted < d.Needed {
				t.Fatalf("got %+v, want what is needed at once", d)
			}
			if last >= 0 && last-d.Wanted > max(last/4, 1) {
				t.Fatalf("got %+v, of %d: too many go at once", d, last)
			}
			if last < 0 && m.Needed < d.Needed { // later their pasts differ
				t.Fatalf("got %d for more jobs, and %d for fewer", m.Needed, d.Needed)
			}
			if o := beyond.next(over); last < 0 && o.Needed != d.Needed {
				t.Fatalf("got %d and %d for jobs that no quota lets run", o.Needed, d.Needed)
			}
			last = d.Wanted
		}
	}
}

func anyLoad(rng *rand.Rand) Load {
	l := Load{Oldest: time.Duration(rng.IntN(600)) * time.Second, Workers: rng.IntN(20)}
	if rng.IntN(10) == 0 {
		l.Paused = 1
	}
	for n := range rng.IntN(5) {
		x := Tenant{Name: string(rune('a' + n)), Queued: int64(rng.IntN(1000) * rng.IntN(2)), Running: int64(rng.IntN(20)), Ended: int64(rng.IntN(1000))}
		if rng.IntN(3) == 0 {
			x.Quota = int64(rng.IntN(10))
		}
		l.Tenants = append(l.Tenants, x)
	}
	return l
}
