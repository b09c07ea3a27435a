package record

import (
	"slices"
	"testing"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/job"
)

func TestWindow(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 2)
	var ids []string
	for range 10 {
		ids = append(ids, s.mustCreate(t, "default", ""))
	}
	expect := func(what string, open, behind []string) {
		t.Helper()
		got := s.opened(t, "default")
		slices.Sort(got)
		want := slices.Sorted(slices.Values(open))
		if !slices.Equal(got, want) {
			t.Errorf("%s: released are %v, want %v", what, got, want)
		}
		if got := s.behind(t, "default", job.Normal); !slices.Equal(got, behind) {
			t.Errorf("%s: in the backlog are %v, want %v", what, got, behind)
		}
		for _, id := range open {
			if s.rdb.Exists(t.Context(), "asynq:{normal}:t:"+id+".1").Val() == 0 {
				t.Errorf("%s: %s is released and has no task", what, id)
			}
		}
		usage := s.usage(t, "default")
		if want := int64(len(open) + len(behind)); usage.JobsQueued != want {
			t.Errorf("%s: %d jobs are queued, want %d", what, usage.JobsQueued, want)
		}
	}
	if _, err := s.CreateTenant(t.Context(), "default", job.Terms{}); err != nil {
		t.Fatal(err)
	}
	expect("10 created", ids[:4], ids[4:])
	first := s.mustStart(t, ids[0], 1)
	expect("one started", ids[1:4], ids[4:])
	if j, err := s.Get(t.Context(), ids[4]); err != nil || !j.Released.IsZero() || first.Released.IsZero() || first.Released.After(first.Started) {
		t.Errorf("%v: the one that waits was released %s, the first %s", err, j.Released, first.Released)
	}
	s.mustEnd(t, first)
	expect("one ended", ids[1:5], ids[5:])
	for _, id := range []string{ids[7], ids[2]} {
		if got, err := s.Cancel(t.Context(), id, []byte("{}")); err != nil || got != job.Canceled {
			t.Fatalf("cancel: got %v, %v", got, err)
		}
	}
	expect("one of each canceled", []string{ids[1], ids[3], ids[4], ids[5]}, []string{ids[6], ids[8], ids[9]})
	s.mustStart(t, ids[1], 1)
	if got, err := s.Requeue(t.Context(), ids[1], 1, "w", CostNothing, 0); err != nil || got != RequeueOK {
		t.Fatalf("requeue: got %v, %v", got, err)
	}
	if n := len(s.opened(t, "default")); n != 4 {
		t.Errorf("after a requeue %d are released, want 4", n)
	}
	// Other tenants have windows of their own.
	if other := s.mustCreate(t, "other", ""); !slices.Equal(s.opened(t, "other"), []string{other}) {
		t.Error("a job of another tenant waits")
	}
}

// A window that grows is filled by the sweeper, one that shrinks takes nothing back.
func TestWindowThatChanges(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 1)
	w := &Sweeper{Records: s, Log: s.log}
	for range 12 {
		s.mustCreate(t, "default", "")
	}
	tenant, err := s.CreateTenant(t.Context(), "default", job.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	quota := func(n int64) {
		t.Helper()
		if tenant, err = s.SetTerms(t.Context(), "default", tenant.Revision, job.Terms{Quotas: job.Quotas{RunningAtOnce: n}}); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, want int) {
		t.Helper()
		w.passDue(t.Context())
		if n := len(s.opened(t, "default")); n != want {
			t.Errorf("%s: %d are released, want %d", what, n, want)
		}
		if n := len(tasks(t, s, "normal")); n != want {
			t.Errorf("%s: there are %d tasks, want %d", what, n, want)
		}
	}
	expect("one slot", 2)
	s.resize(t, 3)
	expect("three slots", 6)
	quota(8)
	expect("a quota above them", 6)
	s.resize(t, 5)
	expect("five slots and the quota", 8)
	quota(3)
	expect("a smaller quota", 8)
	for i, id := range s.opened(t, "default") {
		s.mustEnd(t, s.mustStart(t, id, 1))
		if n := len(s.opened(t, "default")); n != max(7-i, 3) {
			t.Errorf("%d ended under a smaller quota: %d are released, want %d", i+1, n, max(7-i, 3))
		}
	}
	if n := len(s.behind(t, "default", job.Normal)); n != 1 {
		t.Errorf("%d are left in the backlog, want 1", n)
	}
}

func TestSlots(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 2)
	expect := func(what string, want int64) {
		t.Helper()
		s.recount(t)
		for range 2 { // counted, then known
			if got, err := s.slots(t.Context()); err != nil || got != want {
				t.Errorf("%s: got %d, %v, want %d", what, got, err, want)
			}
		}
	}
	beat := func(w fleet.Worker) {
		t.Helper()
		if err := s.Fleet.Beat(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		s.rdb.Persist(t.Context(), workerKey(w.ID))
	}
	expect("one worker", 2)
	beat(fleet.Worker{ID: "x", Concurrency: 5})
	expect("two", 7)
	beat(fleet.Worker{ID: "x", Concurrency: 5, Paused: "no S3"})
	expect("one of them paused", 2)
	beat(fleet.Worker{ID: "x", Concurrency: 6})
	expect("back again, with more", 8)
	if err := s.rdb.Del(t.Context(), workerKey("w")).Err(); err != nil { // its beat has lapsed
		t.Fatal(err)
	}
	expect("one of them lost", 6)
	if n := s.rdb.HLen(t.Context(), slotsKey).Val(); n != 1 {
		t.Errorf("%d workers are remembered, want 1", n)
	}
	if err := s.Fleet.Leave(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	expect("none", 0)
	if window, err := s.window(t.Context(), "default"); err != nil || window != runsAhead {
		t.Errorf("nobody there: the window is %d, %v, want %d", window, err, runsAhead)
	}
}
