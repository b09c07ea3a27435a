package record

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// None starves: of ten jobs from the backlog six are high, three normal and one low.
func TestTurns(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 1)
	if _, err := s.CreateTenant(t.Context(), "default", job.Terms{Quotas: job.Quotas{RunningAtOnce: 1}}); err != nil {
		t.Fatal(err)
	}
	first := s.mustCreate(t, "default", job.Low)
	var jobs []NewJob
	for _, p := range []job.Priority{job.Low, job.Normal, job.High} {
		for range 60 {
			jobs = append(jobs, NewJob{ID: job.NewID("default"), Spec: job.Spec{Runtime: "bash", Priority: p}})
		}
	}
	if _, err := s.CreateMany(t.Context(), "default", jobs); err != nil {
		t.Fatal(err)
	}
	s.mustEnd(t, s.mustStart(t, first, 1))
	ran := map[job.Priority]int{}
	for i := range jobs {
		ids := s.opened(t, "default")
		if len(ids) != 1 {
			t.Fatalf("after %d runs %d jobs are released, want 1", i, len(ids))
		}
		j := s.mustStart(t, ids[0], 1)
		ran[j.Priority]++
		s.mustEnd(t, j)
		switch i + 1 {
		case 10, 50, 100:
			n := (i + 1) / 10
			if ran[job.High] != 6*n || ran[job.Normal] != 3*n || ran[job.Low] != n {
				t.Errorf("after %d runs: got %v, want 6 to 3 to 1", i+1, ran)
			}
		case 140: // no high is left: 3 to 1
			if ran[job.High] != 60 || ran[job.Normal] != 60 || ran[job.Low] != 20 {
				t.Errorf("after %d runs: got %v, want high and normal done and 20 low", i+1, ran)
			}
		}
	}
	if len(s.opened(t, "default")) != 0 || len(s.behind(t, "default", job.Low)) != 0 {
		t.Error("something is left")
	}
}

// Whoever dies between a script and the task that it asks for loses nothing.
func TestReleasedWithoutATask(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 1)
	w := &Sweeper{Records: s, Log: s.log}
	var ids []string
	for range 3 {
		ids = append(ids, s.mustCreate(t, "default", ""))
	}
	first := s.mustStart(t, ids[0], 1)
	if _, err := asynq.NewInspectorFromRedisClient(s.rdb).DeleteAllPendingTasks("normal"); err != nil {
		t.Fatal(err) // as if who created them had died before
	}
	// As if the worker had died just after the script that ends the job.
	ending := Ending{Status: job.Succeeded, Result: []byte("{}")}
	if err := endScript.Run(t.Context(), s.rdb, "default", s.finishArgs(t.Context(), first, ending, script.Args{"epoch": 1, "worker": "w", "from": ""})).Err(); err != nil {
		t.Fatal(err)
	}
	if got := s.opened(t, "default"); len(got) != 2 || len(tasks(t, s, "normal")) != 0 {
		t.Fatalf("released are %v, tasks %v; want two without any", got, tasks(t, s, "normal"))
	}
	w.forward(sweepDelay)
	if err := w.sweepOpen(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values([]string{ids[1] + ".1", ids[2] + ".1"}))
	if got := tasks(t, s, "normal"); !slices.Equal(got, want) {
		t.Errorf("got tasks %v, want %v", got, want)
	}
}

func TestCreateMany(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 3)
	var jobs []NewJob
	for i := range 2*createMost + 17 {
		jobs = append(jobs, NewJob{ID: job.NewID("default"), Spec: job.Spec{Runtime: "bash", Source: fmt.Sprint(i), Metadata: map[string]string{"n": fmt.Sprint(i)}}})
	}
	large := strings.Repeat("x", createMostBytes/3)
	for i := range 5 {
		jobs[i].Spec.Source = large
	}
	jobs[9] = NewJob{ID: jobs[9].ID, Spec: job.Spec{Image: "a@b", Callback: &job.Callback{URL: "https://example.com/"}, Priority: job.High}, SpecRef: "k"}
	for round, want := range []error{nil, ErrExists} { // a replay changes nothing
		created, err := s.CreateMany(t.Context(), "default", jobs)
		if err != nil || len(created) != len(jobs) {
			t.Fatalf("got %d of %d, %v", len(created), len(jobs), err)
		}
		for i, c := range created {
			if c.ID != jobs[i].ID || !errors.Is(c.Err, want) {
				t.Fatalf("round %d: job %d is %s, %v; want %s, %v", round, i, c.ID, c.Err, jobs[i].ID, want)
			}
		}
	}
	for i, n := range jobs {
		j, err := s.Get(t.Context(), n.ID)
		if err != nil || j.State != job.Queued || j.Epoch != 1 || i != 9 && (j.Spec == nil || j.Spec.Source != n.Spec.Source || j.Metadata["n"] != fmt.Sprint(i)) {
			t.Fatalf("job %d: got %+v, %v", i, j, err)
		}
		if i == 9 && (j.SpecRef != "k" || j.Spec != nil || j.Image != "a@b" || j.Callback != "https://example.com/" || j.Priority != job.High) {
			t.Errorf("got %+v", j)
		}
	}
	if open := s.opened(t, "default"); len(open) != 6 || len(tasks(t, s, "normal")) != 6 {
		t.Errorf("released are %v, want the first 6 with a task each", open)
	}
	if got := s.behind(t, "default", job.Normal); len(got) != len(jobs)-7 || got[0] != jobs[6].ID || got[len(got)-1] != jobs[len(jobs)-1].ID {
		t.Errorf("the backlog of %d is not in the order of the jobs", len(got))
	}
	if _, err := s.CreateMany(t.Context(), "default", []NewJob{{ID: job.NewID("other")}}); err == nil {
		t.Error("a job of another tenant was created")
	}
	if created, err := s.CreateMany(t.Context(), "default", nil); err != nil || len(created) != 0 {
		t.Errorf("nothing to create: got %v, %v", created, err)
	}
}

// The quota is full in the middle: what fits is accepted, and nothing is left of the rest.
func TestCreateManyBeyondTheQuota(t *testing.T) {
	t.Parallel()
	for name, quotas := range map[string]job.Quotas{
		"jobs":  {JobsQueued: 130},
		"bytes": {BytesQueued: 130*int64(len(`{"runtime":"bash","limits":{}}`)) + 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storeOf(t, 2)
			if _, err := s.CreateTenant(t.Context(), "default", job.Terms{Quotas: quotas}); err != nil {
				t.Fatal(err)
			}
			var jobs []NewJob
			for range 150 {
				jobs = append(jobs, NewJob{ID: job.NewID("default"), JSON: []byte(`{"runtime":"bash","limits":{}}`)})
			}
			created, err := s.CreateMany(t.Context(), "default", jobs)
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range created {
				var refused *job.Error
				full := errors.As(c.Err, &refused) && refused.Code == job.CodeQuotaExceeded
				_, err := s.Get(t.Context(), c.ID)
				if full != (i >= 130) || errors.Is(err, job.ErrNotFound) != full {
					t.Fatalf("job %d: got %v, its record: %v", i, c.Err, err)
				}
			}
			if usage := s.usage(t, "default"); usage.JobsQueued != 130 {
				t.Errorf("got %+v", usage)
			}
		})
	}
}

// Redis forgets scripts when it starts, and a call in the middle may fail.
func TestCreateManyThatFails(t *testing.T) {
	t.Parallel()
	server := gbtest.Redis(t)
	s, err := Open(t.Context(), Config{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	jobs := make([]NewJob, 3*createMost)
	for i := range jobs {
		jobs[i] = NewJob{ID: job.NewID("default"), Spec: job.Spec{Runtime: "bash"}}
	}
	jobs[2*createMost].ID = "no id"
	created, err := s.CreateMany(t.Context(), "default", jobs)
	if err == nil || len(created) != 2*createMost {
		t.Fatalf("got %d created, %v; want an error after %d", len(created), err, 2*createMost)
	}
	jobs[2*createMost].ID = job.NewID("default")
	server.Kill()
	if created, err := s.CreateMany(t.Context(), "default", jobs); err == nil || len(created) != 0 {
		t.Errorf("without Redis: got %d created, %v", len(created), err)
	}
	server.Restart()
	created, err = s.CreateMany(t.Context(), "default", jobs)
	if err != nil || len(created) != len(jobs) {
		t.Fatalf("got %d created, %v", len(created), err)
	}
	for i, c := range created {
		if errors.Is(c.Err, ErrExists) != (i < 2*createMost) {
			t.Fatalf("job %d: got %v", i, c.Err)
		}
	}
}
