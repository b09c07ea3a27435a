package record

import (
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/job"
)

// patienceWorld is a job, and a clock that only the test moves.
type patienceWorld struct {
	*Store
	id  string
	now time.Time
}

func newPatienceWorld(t *testing.T) *patienceWorld {
	t.Helper()
	w := &patienceWorld{Store: store(t), now: time.Now().Truncate(time.Millisecond)}
	w.Store.now = func() time.Time { return w.now }
	w.id = newJob(t, w.Store, job.Spec{Runtime: "python", Source: "1"})
	return w
}

func (w *patienceWorld) job(t *testing.T) Record {
	t.Helper()
	j, err := w.Get(t.Context(), w.id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// unoffered has a worker meet the job that doesn't offer what it needs, as nobody does.
func (w *patienceWorld) unoffered(t *testing.T) Record {
	t.Helper()
	wants := &NotOfferedError{Name: "python", Priority: job.Normal}
	if told, err := w.HandOver(t.Context(), queue.Run{ID: w.id, Epoch: w.job(t).Epoch}, wants); err != nil || told {
		t.Fatalf("got %v, %v", told, err)
	}
	return w.job(t)
}

// run has a worker start the job, and hand it back after a while.
func (w *patienceWorld) run(t *testing.T, took time.Duration, cost Cost) (Requeued, Record) {
	t.Helper()
	j, err := w.Start(t.Context(), w.id, w.job(t).Epoch, "w")
	if err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(took)
	answer, err := w.Requeue(t.Context(), w.id, j.Epoch, "w", cost, 0)
	if err != nil {
		t.Fatal(err)
	}
	return answer, w.job(t)
}

// TestUnofferedAgain: a job that was offered, for all that is known, has a day anew.
func TestUnofferedAgain(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]func(*testing.T, *patienceWorld){
		"it ran meanwhile": func(t *testing.T, w *patienceWorld) { //nolint:thelper // a case
			if _, j := w.run(t, time.Minute, CostNothing); !j.Unoffered.IsZero() {
				t.Errorf("as it runs, it is unoffered since %s", j.Unoffered)
			}
			w.now = w.now.Add(time.Hour)
		},
		"nobody looked meanwhile": func(_ *testing.T, w *patienceWorld) { w.now = w.now.Add(25 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPatienceWorld(t)
			w.unoffered(t)
			between(t, w)
			if j := w.unoffered(t); j.State != job.Queued || !j.Unoffered.Equal(w.now) {
				t.Errorf("got %s, unoffered since %s; want queued, since %s", j.State, j.Unoffered, w.now)
			}
		})
	}
}

// TestUnofferedGap: looks that are no more than the gap apart make one wait.
func TestUnofferedGap(t *testing.T) {
	t.Parallel()
	for apart, want := range map[time.Duration]job.Status{unofferedGap: job.InternalError, unofferedGap + time.Millisecond: job.Queued} {
		w := newPatienceWorld(t)
		began := w.now
		for j := w.unoffered(t); j.State == job.Queued && w.now.Sub(began) < 2*unofferedPatience; j = w.unoffered(t) {
			w.now = w.now.Add(apart)
		}
		if j := w.job(t); j.State != want {
			t.Errorf("looks %s apart: got %s after %s, want %s", apart, j.State, w.now.Sub(began), want)
		}
	}
}

// TestOutageAgain: a job that meets another outage a day after its last one has a day anew.
func TestOutageAgain(t *testing.T) {
	t.Parallel()
	w := newPatienceWorld(t)
	w.run(t, time.Minute, CostOutage)
	w.now = w.now.Add(25 * time.Hour)
	if answer, j := w.run(t, time.Minute, CostOutage); answer != RequeueOK || j.Attempts != 0 || !j.OutageSince.Equal(w.now) {
		t.Errorf("got %q, %d attempts, outages since %s; want none, since %s", answer, j.Attempts, j.OutageSince, w.now)
	}
	w.now = w.now.Add(25 * time.Hour)
	if j, err := w.Start(t.Context(), w.id, w.job(t).Epoch, "w"); err != nil || !j.OutageSince.IsZero() {
		t.Errorf("its worker learns of an outage at %s, %v: what is over would delay its next try", j.OutageSince, err)
	}
}

// TestOutageGap: outages that go on for a day cost attempts from then on, however long the job ran until it met each.
func TestOutageGap(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		waits, runs time.Duration
		want        Requeued
	}{
		"every few minutes":        {5 * time.Minute, time.Minute, RequeueExhausted},
		"rarely":                   {outageGap, time.Minute, RequeueExhausted},
		"more rarely":              {outageGap + time.Millisecond, time.Minute, RequeueOK},
		"at the ends of long runs": {5 * time.Minute, 2 * outageGap, RequeueExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPatienceWorld(t)
			answer, _ := w.run(t, 0, CostOutage)
			spent, began := 0, w.now
			for answer == RequeueOK && w.now.Sub(began) < 4*outagePatience {
				w.now = w.now.Add(c.waits)
				var j Record
				if answer, j = w.run(t, c.runs, CostOutage); w.now.Sub(began) > outagePatience && c.want == RequeueExhausted {
					spent++
				}
				if j.Attempts != spent {
					t.Fatalf("after %s: got %q and %d attempts, want %d", w.now.Sub(began), answer, j.Attempts, spent)
				}
			}
			if answer != c.want {
				t.Errorf("got %q after %s, want %q", answer, w.now.Sub(began), c.want)
			}
		})
	}
}
