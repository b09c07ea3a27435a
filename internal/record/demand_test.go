package record

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/autoscale"
	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/job"
)

// demand is what there is to do for each of these pools, with tenants in the order of their names.
func (s *Store) demand(t *testing.T, soon time.Duration, pools ...string) []autoscale.Load {
	t.Helper()
	p, err := autoscale.ParsePools(pools)
	if err != nil {
		t.Fatal(err)
	}
	loads, err := s.Demand(t.Context(), soon, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range loads {
		slices.SortFunc(l.Tenants, func(a, b autoscale.Tenant) int { return strings.Compare(a.Name, b.Name) })
	}
	return loads
}

// TestDemand: what autoscaling reads are the jobs of each tenant with its quota, in its backlog or not, those that come due
// soon, the age of the oldest that a worker would help, and the workers.
func TestDemand(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 2)
	if _, err := s.CreateTenant(t.Context(), "bounded", job.Terms{Quotas: job.Quotas{RunningAtOnce: 1}}); err != nil {
		t.Fatal(err)
	}
	clock := s.now().Truncate(time.Millisecond)
	s.now = func() time.Time { return clock }
	for range 3 {
		s.mustCreate(t, "bounded", "")
	}
	clock = clock.Add(time.Minute)
	var ids []string
	for range 9 { // four of them are released
		ids = append(ids, s.mustCreate(t, "free", ""))
	}
	s.mustStart(t, ids[0], 1)
	done := s.mustStart(t, ids[1], 1)
	if err := s.End(t.Context(), done, Ending{Status: job.Succeeded, Result: []byte("{}"), Metered: &Metered{}}); err != nil {
		t.Fatal(err)
	}
	for _, after := range []time.Duration{time.Minute, time.Hour} {
		if _, err := s.CreateMany(t.Context(), "later", []NewJob{{ID: job.NewID("later"), Spec: job.Spec{Runtime: "bash", RunAt: clock.Add(after)}}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range []fleet.Worker{
		{ID: "x", Concurrency: 4, Paused: "no bucket"},
		{ID: "y", Concurrency: 4},
		{ID: "y", Concurrency: 4, Paused: "drained", Drained: true},
	} {
		if err := s.Fleet.Beat(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	clock = clock.Add(10 * time.Second)
	got := s.demand(t, 2*time.Minute)[0]
	want := autoscale.Load{
		Pool: autoscale.Common, At: clock, Oldest: 10 * time.Second, // the bounded tenant's wait for its own
		Workers: 1, Paused: 1,
		Tenants: []autoscale.Tenant{
			{Name: "bounded", Queued: 3, Quota: 1},
			{Name: "free", Queued: 7, Running: 1, Ended: 1},
			{Name: "later", Soon: 1},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("want -, got +:\n%s", d)
	}
}

// TestDemandPassesOver: what a worker has made of a tenant's counts spoils nobody else's.
func TestDemandPassesOver(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 2)
	s.mustCreate(t, "good", "")
	s.mustCreate(t, "spoiled", "")
	for _, key := range []string{openKey("spoiled"), usageKey("spoiled", s.now())} {
		s.rdb.Del(t.Context(), key)
		if err := s.rdb.Set(t.Context(), key, "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	got := s.demand(t, 0)[0]
	if len(got.Tenants) != 1 || got.Tenants[0].Name != "good" || got.Tenants[0].Queued != 1 {
		t.Errorf("got %+v, want the good tenant's job", got)
	}
}
