package producer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func (s suite) wait(t *testing.T) {
	const most = 10 * time.Second // unwoken, they look after 15 s
	if took := gbtest.Best(3, most, func() time.Duration { return s.waitMany(t) }); took > most {
		t.Errorf("waits were woken after %s, want at once", took)
	}
}

// waitMany returns how long after a job's end those who wait for it have its result.
func (s suite) waitMany(t *testing.T) time.Duration {
	t.Helper()
	j := s.submit(t)
	const n = 5
	ended := make(chan error, n)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			j, err := s.jobs.Wait(t.Context(), j.ID)
			if err == nil && (!j.Ended() || j.Result.Stdout != "hello\n") {
				err = fmt.Errorf("got %+v, want the result", j)
			}
			ended <- err
		})
	}
	running := s.w.Start(t, j.ID)
	select {
	case err := <-ended:
		t.Errorf("a wait ended before the job: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	start := time.Now()
	s.w.End(t, running, nil, nil)
	all.Wait()
	took := time.Since(start)
	for range n {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	return took
}

func (s suite) waitContext(t *testing.T) {
	j := s.submit(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := s.jobs.Wait(ctx, j.ID); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
	if _, err := s.jobs.Wait(t.Context(), job.NewID("default")); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

func (s suite) runAt(t *testing.T) {
	spec := job.Spec{
		Runtime: "python", Source: "1",
		RunAt: time.Now().Add(time.Hour).Truncate(time.Millisecond), Deadline: time.Now().Add(2 * time.Hour).Truncate(time.Millisecond),
	}
	submitted, err := s.jobs.Submit(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.jobs.Get(t.Context(), submitted.ID)
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.jobs.List(t.Context(), producer.ListOptions{Limit: 1})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].ID != submitted.ID {
		t.Fatalf("list: got %+v, %v", page, err)
	}
	canceled, err := s.jobs.Cancel(t.Context(), submitted.ID)
	if err != nil {
		t.Fatal(err)
	}
	for name, timing := range map[string]job.Timing{
		"submit": submitted.Timing, "get": got.Timing, "list": page.Jobs[0].Timing, "cancel": canceled.Timing, "its result": canceled.Result.Timing,
	} {
		if timing.RunAt == nil || !timing.RunAt.Equal(spec.RunAt) || timing.Deadline == nil || !timing.Deadline.Equal(spec.Deadline) || timing.QueueMS != 0 {
			t.Errorf("%s: got %+v, want run_at %s and deadline %s", name, timing, spec.RunAt, spec.Deadline)
		}
	}
	for field, spec := range map[string]job.Spec{
		"run_at":   {Runtime: "python", Source: "1", RunAt: time.Now().Add(job.MaxRunAhead + time.Hour)},
		"deadline": {Runtime: "python", Source: "1", Deadline: time.Now().Add(-time.Minute)},
	} {
		_, err := s.jobs.Submit(t.Context(), spec)
		var invalid job.Invalid
		if !errors.As(err, &invalid) || len(invalid) != 1 || invalid[0].Field != field {
			t.Errorf("got %v, want one fault, of %s", err, field)
		}
	}
}

func (s suite) waitOverRestart(t *testing.T) {
	j := s.submit(t)
	ended := make(chan error, 1)
	go func() {
		j, err := s.jobs.Wait(t.Context(), j.ID)
		if err == nil && j.Status != job.Succeeded {
			err = fmt.Errorf("got %+v, want success", j)
		}
		ended <- err
	}()
	time.Sleep(100 * time.Millisecond) // let it wait; where it doesn't yet, nothing breaks
	s.w.Redis.Kill()
	s.w.Redis.Restart()
	s.w.End(t, s.w.Start(t, j.ID), nil, nil)
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the wait did not end")
	}
}
