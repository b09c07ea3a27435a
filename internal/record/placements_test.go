package record

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
)

// TestTooManyPlacements: a tenant can't fill workers with queues.
func TestTooManyPlacements(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 2)
	for i := range mostPools {
		s.placedJobs(t, "default", "a="+string(rune('a'+i)), 1)
	}
	labels := job.Labels{"a": "z"}
	err := s.Create(t.Context(), job.NewID("default"), job.Spec{Runtime: "bash", Placement: labels}, "")
	if job.CodeOf(err) != job.CodeQuotaExceeded {
		t.Errorf("got %v", err)
	}
	if _, err := s.OpenSession(t.Context(), "default", job.SessionSettings{Runtime: "python", Placement: labels}, nil); job.CodeOf(err) != job.CodeQuotaExceeded {
		t.Errorf("a session: got %v", err)
	}
	s.placedJobs(t, "default", "a=a", 1) // one that it has
	// A day after they ended, all are forgotten.
	for _, k := range s.rdb.Keys(t.Context(), "gb:{default}:backlog:*").Val() {
		s.rdb.Del(t.Context(), k)
	}
	s.now = func() time.Time { return time.Now().Add(poolLife + time.Hour) }
	s.passes(t, "default")
	if n := s.rdb.Exists(t.Context(), poolsKey("default"), pooledKey, windowsKey("default")).Val(); n != 0 {
		t.Errorf("%d keys are left of them", n)
	}
}

// TestPoolForLater: a job with a placement that waits longer for its time, or for approval, than a placement is known runs nevertheless.
func TestPoolForLater(t *testing.T) {
	t.Parallel()
	placement := job.Labels{"zone": "a"}
	for name, wait := range map[string]func(s *Store) (id string, after func()){
		"its time": func(s *Store) (string, func()) {
			id := job.NewID("default")
			if err := s.Create(t.Context(), id, job.Spec{Runtime: "bash", Placement: placement, RunAt: time.Now().Add(48 * time.Hour)}, ""); err != nil {
				t.Fatal(err)
			}
			return id, func() {}
		},
		"approval": func(s *Store) (string, func()) {
			j := s.heldFor(t, job.Spec{Placement: placement}, 72*time.Hour)
			return j.ID, func() {
				if err := s.Approve(t.Context(), j, approvalOf(j)); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		s := storeOf(t, 2)
		s.labelled(t, "one", "1 zone=a")
		id, after := wait(s)
		began := time.Now()
		s.passes(t, "default")
		for _, later := range []time.Duration{25 * time.Hour, 47 * time.Hour} {
			s.now = func() time.Time { return began.Add(later) }
			s.passes(t, "default")
			if n := s.releasedOf(t, "default", []string{id}); n != 0 {
				t.Errorf("%s: it is released %s after it came", name, later)
			}
		}
		s.now = func() time.Time { return began.Add(48*time.Hour + time.Minute) }
		after()
		s.passes(t, "default")
		s.passes(t, "default")
		if got := s.tasksOf(t, "zone=a"); !slices.Equal(got, []string{id}) {
			t.Errorf("%s: the pool's queue has %v, want the job", name, got)
		}
		// Once nothing waits, the placement is forgotten.
		j, err := s.StartOn(t.Context(), id, 1, Starter{ID: "one", Labels: placement})
		if err != nil {
			t.Fatal(name, err)
		}
		s.mustEnd(t, j)
		s.now = func() time.Time { return began.Add(80 * time.Hour) }
		s.passes(t, "default")
		if n := s.rdb.Exists(t.Context(), poolsKey("default"), pooledKey).Val(); n != 0 {
			t.Errorf("%s: %d keys are left of the placement", name, n)
		}
	}
}

// TestPoolsForgotten: of a tenant's placements those are forgotten that nobody uses, a job that comes meanwhile keeps its own, and a tenant of which
// nothing can be read loses nothing.
func TestPoolsForgotten(t *testing.T) {
	t.Parallel()
	s, ctx := storeOf(t, 2), t.Context()
	s.placedJobs(t, "default", "zone=used", 1)
	s.placedJobs(t, "spoiled", "zone=used", 1)
	began := time.Now()
	s.now = func() time.Time { return began.Add(poolLife + time.Hour) }
	old := redis.Z{Score: float64(ms(began)), Member: "zone=old"}
	s.rdb.ZAdd(ctx, poolsKey("default"), old, redis.Z{Score: float64(ms(began)), Member: "no placement"}, redis.Z{Score: float64(ms(s.now().Add(-time.Hour))), Member: "zone=late"})
	s.rdb.HSet(ctx, tenantKey("spoiled"), "terms", "{")
	s.rdb.HSet(ctx, lineKey("default"), turnField("zone=old"), 3, turnField("zone=used"), 4)
	s.rdb.ZAdd(ctx, poolsKey("other"), old)
	s.rdb.ZAdd(ctx, pooledKey, redis.Z{Score: float64(ms(began)), Member: "other"})
	w := &Sweeper{Records: s, Log: s.log}
	if err := w.release(ctx, "default", "other", "spoiled"); err == nil || !strings.Contains(err.Error(), "spoiled") {
		t.Errorf("got %v, want a failure of the spoiled one", err)
	}
	if got := s.rdb.ZRange(ctx, poolsKey("default"), 0, -1).Val(); !slices.Equal(got, []string{"zone=late", "zone=used"}) {
		t.Errorf("the placements are %q", got)
	}
	if got := s.rdb.ZRange(ctx, pooledKey, 0, -1).Val(); !slices.Equal(got, []string{"default", "spoiled"}) {
		t.Errorf("the tenants are %q", got)
	}
	if got := s.rdb.HMGet(ctx, lineKey("default"), turnField("zone=old"), turnField("zone=used")).Val(); got[0] != nil || got[1] != "4" {
		t.Errorf("the turns of a placement that is forgotten, and of one that isn't, are %v", got)
	}
	// As if it had come after the look: what is forgotten goes by when it was noted last.
	s.rdb.ZAdd(ctx, poolsKey("default"), redis.Z{Score: float64(ms(s.now())), Member: "zone=old"})
	if err := s.forgetPools(ctx, "default", oldPools{lapsed: []string{"zone=old"}, before: ms(s.now().Add(-poolLife))}); err != nil {
		t.Fatal(err)
	}
	if s.rdb.ZScore(ctx, poolsKey("default"), "zone=old").Err() != nil {
		t.Error("a placement is forgotten that a job has just noted")
	}
}
