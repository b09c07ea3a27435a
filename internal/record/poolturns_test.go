package record

import (
	"errors"
	"slices"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestPoolHoldsUpNothingElse: jobs of a pool with one slot wait, however many they are, and those that came later for other workers don't
// wait for them, be they of the same tenant or not.
func TestPoolHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 4)
	s.labelled(t, "gpu", "1 gpu=yes gpu")
	few := s.placedJobs(t, "default", "gpu=yes", 100)
	if n := s.releasedOf(t, "default", few); n != 0 {
		t.Errorf("%d jobs are released before anybody has looked at the pool", n)
	}
	s.passes(t, "default")
	if n := s.releasedOf(t, "default", few); n != 2 {
		t.Errorf("%d jobs are released of a pool with one slot, want 2", n)
	}
	if got := s.tasksOf(t, "gpu=yes"); !slices.Equal(got, few[:2]) {
		t.Errorf("the pool's queue has %v, want the first two", got)
	}
	for _, id := range few[:2] {
		if s.rdb.Exists(t.Context(), "asynq:{normal}:t:"+id+".1").Val() != 0 {
			t.Error("a task of the pool is in the queue of all workers")
		}
	}
	others := s.placedJobs(t, "default", "", 8)
	if n := s.releasedOf(t, "default", others); n != 8 {
		t.Errorf("%d of 8 jobs behind them are released", n)
	}
	// The end of one releases the next of its pool, and a new one of a pool with room is released at once.
	j, err := s.StartOn(t.Context(), few[0], 1, Starter{ID: "gpu", Labels: job.Labels{"gpu": "yes"}, Only: []string{"gpu"}})
	if err != nil {
		t.Fatal(err)
	}
	s.mustEnd(t, j)
	if n := s.releasedOf(t, "default", few); n != 2 {
		t.Errorf("%d jobs of the pool are released once one has ended, want 2", n)
	}
	s.labelled(t, "more", "8 gpu=yes gpu")
	s.passes(t, "default")
	if n := s.releasedOf(t, "default", few); n != 18 {
		t.Errorf("%d jobs of the pool are released once it has 9 slots, want 18", n)
	}
	if n, err := s.rdb.ZCard(t.Context(), backlogKeys("default")[3]).Result(); err != nil || n != 100-19 {
		t.Errorf("%d jobs of pools wait, %v, want 81", n, err)
	}
	usage, err := s.ReadTenant(t.Context(), "default")
	if err == nil || !errors.Is(err, job.ErrNoTenant) {
		t.Errorf("got %v, %v", usage, err)
	}
}

// TestPoolFairness: tenants share a pool as they share all workers, and one that names its workers in many ways gets no more.
func TestPoolFairness(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 2)
	s.labelled(t, "pool", "8 a=1,b=1,c=1 a")
	one := s.placedJobs(t, "one", "a=1", 40)
	var many []string
	for _, placement := range []string{"a=1", "a=1,b=1", "a=1,c=1", "a=1,b=1,c=1"} {
		many = append(many, s.placedJobs(t, "many", placement, 40)...)
	}
	s.passes(t, "many", "one")
	if a, b := s.releasedOf(t, "one", one), s.releasedOf(t, "many", many); a != 8 || b != 8 {
		t.Errorf("of 16 jobs that are ahead %d are of one and %d of many placements", a, b)
	}
}

// TestPoolTurnsOfPriorities: of two pools that take one job each by turns, both come to their jobs of low priority, although others are left.
func TestPoolTurnsOfPriorities(t *testing.T) {
	t.Parallel()
	s, ctx := storeOf(t, 1), t.Context()
	if _, err := s.CreateTenant(ctx, "acme", job.Terms{Quotas: job.Quotas{RunningAtOnce: 2}}); err != nil {
		t.Fatal(err)
	}
	workers := map[string]Starter{}
	for _, pool := range []string{"a", "b"} {
		labels := job.Labels{"pool": pool}
		s.labelled(t, pool, "4 "+labels.String()+" pool")
		workers[labels.String()] = Starter{ID: pool, Labels: labels, Only: []string{"pool"}}
		for _, p := range []job.Priority{job.High, job.Normal, job.Low} {
			for range 40 {
				if err := s.Create(ctx, job.NewID("acme"), job.Spec{Runtime: "bash", Placement: labels, Priority: p}, ""); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	s.passes(t, "acme")
	ended := map[string]map[job.Priority]int{"pool=a": {}, "pool=b": {}}
	for range 30 {
		open := s.opened(t, "acme")
		if len(open) != 2 {
			t.Fatalf("%d jobs are released, want 2", len(open))
		}
		for _, id := range open { // both end before the next two are released, so that the pools take turns
			j, err := s.Get(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			if j, err = s.StartOn(ctx, id, j.Epoch, workers[j.Placement]); err != nil {
				t.Fatal(err)
			}
			s.mustEnd(t, j)
			ended[j.Placement][j.Priority]++
		}
	}
	for pool, of := range ended {
		if of[job.High] < of[job.Normal] || of[job.Normal] < of[job.Low] || of[job.Low] == 0 {
			t.Errorf("of %s ended are %v, want them as 6 to 3 to 1", pool, of)
		}
	}
}

// TestPoolTurnSpoiled: whatever a worker writes where it is noted whose turn it is, jobs are released.
func TestPoolTurnSpoiled(t *testing.T) {
	t.Parallel()
	for _, spoiled := range []string{"x", "1.5", "", "9223372036854775807", "-3", "720720"} {
		s := storeOf(t, 4)
		s.labelled(t, "a", "1 pool=a pool")
		s.labelled(t, "b", "1 pool=b pool")
		ids := append(s.placedJobs(t, "default", "pool=a", 1), s.placedJobs(t, "default", "pool=b", 1)...)
		s.rdb.HSet(t.Context(), lineKey("default"), "pool", spoiled, turnField("pool=a"), spoiled)
		s.passes(t, "default")
		if n := s.releasedOf(t, "default", ids); n != 2 {
			t.Errorf("%q: %d of 2 jobs are released", spoiled, n)
		}
	}
}
