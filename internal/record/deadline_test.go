package record

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

func (s *Store) mustCreateSpec(t *testing.T, spec job.Spec) string {
	t.Helper()
	spec.Runtime = "bash"
	id := job.NewID("default")
	if err := s.Create(t.Context(), id, spec, ""); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestRunAt(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 1)
	w := &Sweeper{Records: s, Log: s.log}
	if _, err := s.CreateTenant(t.Context(), "default", job.Terms{}); err != nil {
		t.Fatal(err)
	}
	hour := time.Now().Add(time.Hour)
	later := s.mustCreateSpec(t, job.Spec{RunAt: hour, Priority: job.High})
	dropped := s.mustCreateSpec(t, job.Spec{RunAt: hour})
	past := s.mustCreateSpec(t, job.Spec{RunAt: time.Now().Add(-time.Hour)})
	w.passDue(t.Context())
	if got := s.opened(t, "default"); !slices.Equal(got, []string{past}) {
		t.Errorf("released are %v, want what is due, %s", got, past)
	}
	if usage := s.usage(t, "default"); usage.JobsQueued != 3 {
		t.Errorf("%d jobs are queued, want 3", usage.JobsQueued)
	}
	if _, err := s.Cancel(t.Context(), dropped, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	w.forwardTo(hour.Add(-10 * time.Second))
	w.passDue(t.Context())
	if n := s.rdb.ZCard(t.Context(), laterKey("default")).Val(); n != 1 || len(tasks(t, s, "high")) != 0 {
		t.Errorf("%d are for later, tasks are %v; want one and none", n, tasks(t, s, "high"))
	}
	w.forwardTo(hour.Add(time.Second))
	w.passDue(t.Context())
	if got := tasks(t, s, "high"); !slices.Equal(got, []string{later + ".1"}) {
		t.Errorf("got tasks %v, want %s.1", got, later)
	}
	if usage := s.usage(t, "default"); usage.JobsQueued != 2 {
		t.Errorf("%d jobs are queued, want 2", usage.JobsQueued)
	}
	j := s.mustStart(t, later, 1)
	if j.Queued() > 10*time.Second || j.RunAt.IsZero() {
		t.Errorf("it waited %s since it could run at %s", j.Queued(), j.RunAt)
	}
}

// Jobs whose time has come wait for their turn like others.
func TestRunAtBehindABacklog(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 1)
	w := &Sweeper{Records: s, Log: s.log}
	later := s.mustCreateSpec(t, job.Spec{RunAt: time.Now().Add(time.Hour)})
	var now []string
	for range 3 {
		now = append(now, s.mustCreateSpec(t, job.Spec{}))
	}
	w.forward(time.Hour + time.Second)
	w.passDue(t.Context())
	if got := s.behind(t, "default", job.Normal); !slices.Equal(got, []string{now[2], later}) {
		t.Errorf("the backlog is %v, want %s and %s", got, now[2], later)
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 1)
	w := &Sweeper{Records: s, Log: s.log}
	if _, err := s.CreateTenant(t.Context(), "default", job.Terms{}); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(time.Minute)
	callback := &job.Callback{URL: "https://example.com/"}
	running := s.mustCreateSpec(t, job.Spec{Deadline: at})
	s.mustStart(t, running, 1)
	released := s.mustCreateSpec(t, job.Spec{Deadline: at, Callback: callback})
	behind := s.mustCreateSpec(t, job.Spec{Deadline: at})
	later := s.mustCreateSpec(t, job.Spec{Deadline: at, RunAt: at.Add(-time.Second)})
	patient := s.mustCreateSpec(t, job.Spec{Deadline: at.Add(time.Hour)})
	w.passDue(t.Context())
	if usage := s.usage(t, "default"); usage.JobsQueued != 4 || usage.Running != 1 {
		t.Errorf("before the deadline: got %+v", usage)
	}
	w.forward(time.Minute + time.Second)
	w.passDue(t.Context())
	for _, id := range []string{released, behind, later} {
		j, err := s.Get(t.Context(), id)
		var r job.Result
		if err != nil || j.State != job.Canceled || json.Unmarshal(j.Result, &r) != nil || r.Error == nil || r.Error.Code != job.CodeDeadlineExceeded {
			t.Errorf("got %+v, %v, want it canceled by its deadline", j, err)
		}
	}
	if d, err := s.GetDelivery(t.Context(), "default", DeliveryID(released, job.EventCompleted, callback.URL)); err != nil || d.State != Pending {
		t.Errorf("its delivery: got %+v, %v", d, err)
	}
	if got := s.opened(t, "default"); !slices.Equal(got, []string{patient}) {
		t.Errorf("released are %v, want the one that has time left", got)
	}
	if j, err := s.Get(t.Context(), running); err != nil || j.State != job.Running {
		t.Errorf("the one that runs is its worker's to end: got %+v, %v", j, err)
	}
	// Its worker is lost.
	if got, err := s.Requeue(t.Context(), running, 1, "w", CostAttempt, 0); err != nil || got != RequeueOK {
		t.Fatalf("requeue: got %v, %v", got, err)
	}
	w.forward(time.Minute + 10*time.Second)
	w.passDue(t.Context())
	if j, err := s.Get(t.Context(), running); err != nil || j.State != job.Canceled {
		t.Errorf("got %+v, %v, want it canceled", j, err)
	}
	if ids := s.rdb.ZRange(t.Context(), deadlineKey("default"), 0, -1).Val(); !slices.Equal(ids, []string{patient}) {
		t.Errorf("there are deadlines of %v, want %s", ids, patient)
	}
}

func TestDepthOfBacklogs(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 1)
	for range 7 {
		s.mustCreate(t, "busy", "")
	}
	s.mustCreate(t, "busy", job.Low)
	s.mustStart(t, s.opened(t, "busy")[0], 1)
	s.mustCreate(t, "calm", "")
	s.mustCreateSpec(t, job.Spec{RunAt: time.Now().Add(time.Hour)})
	now := time.Now().Add(time.Minute)
	s.now = func() time.Time { return now }
	d, err := s.Depth(t.Context())
	if err != nil || d.Queued != 8 || d.Running != 1 || d.Scheduled != 1 || d.OverWindow != 7 || d.OverTenants != 1 || d.Backlog != 6 {
		t.Errorf("got %+v, %v", d, err)
	}
	if d.BacklogOldest < 50*time.Second || d.BacklogOldest > 2*time.Minute {
		t.Errorf("the oldest waits for %s, want about a minute", d.BacklogOldest)
	}
}
