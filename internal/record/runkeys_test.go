package record

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
)

// TestRunForged: a worker that was taken over may write items and when a run is looked at. Jobs end in any case, none is made again
// that is there, and each run comes to its end.
func TestRunForged(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 100)
	ctx := t.Context()
	for name, forge := range map[string]func(r Run, items string) error{
		"rev is text":      func(_ Run, items string) error { return s.rdb.HSet(ctx, items, "rev", "x").Err() },
		"rev is infinite":  func(_ Run, items string) error { return s.rdb.HSet(ctx, items, "rev", "inf").Err() },
		"rev is large":     func(_ Run, items string) error { return s.rdb.HSet(ctx, items, "rev", "9007199254740993").Err() },
		"rev is gone":      func(_ Run, items string) error { return s.rdb.HDel(ctx, items, "rev").Err() },
		"items are gone":   func(_ Run, items string) error { return s.rdb.Del(ctx, items).Err() },
		"items are a list": func(_ Run, items string) error { s.rdb.Del(ctx, items); return s.rdb.RPush(ctx, items, 1).Err() },
		"put off for good": func(r Run, _ string) error {
			return s.rdb.ZAdd(ctx, runWorkKey("default"), redis.Z{Score: 9e15, Member: r.ID}).Err()
		},
		"never looked at":   func(r Run, _ string) error { return s.rdb.ZRem(ctx, runWorkKey("default"), r.ID).Err() },
		"the job has ended": func(_ Run, items string) error { return s.rdb.HSet(ctx, items, "a:0", "1 failed").Err() },
	} {
		r := s.newRun(t)
		j := stepJob(r, "a", 0, 1)
		if err := s.addStep(t, r, j); err != nil {
			t.Fatal(name, err)
		}
		if err := forge(r, runItemsKey("default", r.ID)); err != nil {
			t.Fatal(name, err)
		}
		s.endStep(t, j.ID, job.Succeeded)
		w := &Sweeper{Records: s}
		if err := w.findRuns(ctx, "default"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if due := s.dueRuns(t); !slices.Contains(due, r.ID) {
			t.Errorf("%s: got %q due, want the run", name, due)
		}
		s.mustRun(t, r.ID)
		if err := s.RefuseItem(ctx, r, "b", 0, 1, "why"); err != nil {
			t.Errorf("%s: refuse: %v", name, err)
		}
		if err := s.CancelRun(ctx, r.ID, RunCanceled); err != nil {
			t.Errorf("%s: cancel: %v", name, err)
		}
		if err := s.EndRun(ctx, s.mustRun(t, r.ID), RunEnd{Status: job.Canceled}); err != nil {
			t.Errorf("%s: end: %v", name, err)
		}
		if r = s.mustRun(t, r.ID); r.State != job.Canceled {
			t.Errorf("%s: got %s", name, r.State)
		}
	}

	// An index of another type is made anew with every run that lives, also where nothing ends.
	alone := s.newRun(t)
	if err := s.rdb.Set(ctx, runWorkKey("default"), "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := (&Sweeper{Records: s}).findRuns(ctx, "default"); err != nil {
		t.Error(err)
	}
	if due := s.dueRuns(t); !slices.Contains(due, alone.ID) {
		t.Errorf("got %q due, want the run", due)
	}
	if err := s.CancelRun(ctx, alone.ID, RunCanceled); err != nil {
		t.Error(err)
	}
	if err := s.EndRun(ctx, s.mustRun(t, alone.ID), RunEnd{Status: job.Canceled}); err != nil {
		t.Error(err)
	}

	r := s.newRun(t)
	first, second := stepJob(r, "a", 0, 1), stepJob(r, "a", 0, 2)
	if err := s.addStep(t, r, first); err != nil {
		t.Fatal(err)
	}
	s.endStep(t, first.ID, job.Failed)
	if err := s.addStep(t, r, second); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(ctx, second.ID, 1, "w"); err != nil {
		t.Fatal(err)
	}
	before := s.recorded(t)
	err := s.rdb.HSet(ctx, runItemsKey("default", r.ID), "a:0", "1 failed").Err()
	if err == nil {
		err = s.addStep(t, r, second)
	}
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.Get(ctx, second.ID)
	after := s.recorded(t)
	if now := s.mustRun(t, r.ID).Items["a"][0]; err != nil || j.State != job.Running || now != (RunItem{Try: 2, Status: job.Queued}) || before != after {
		t.Errorf("made again: got %s, item %+v, %d bytes recorded after %d, %v", j.State, now, after, before, err)
	}
}

// TestRunKey: an idempotency key names its run, and no other.
func TestRunKey(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 100)
	n := NewRun{Pipeline: []byte(`{}`), Params: []byte(`{}`), Deadline: time.Now().Add(time.Hour), Key: "k"}
	first, err := s.OpenRun(t.Context(), "default", n)
	if err != nil {
		t.Fatal(err)
	}
	n.Deadline = n.Deadline.Add(time.Minute)
	if again, err := s.OpenRun(t.Context(), "default", n); err != nil || again.ID != first.ID {
		t.Errorf("got %s, %v, want %s", again.ID, err, first.ID)
	}
	n.Asked = []byte(`{"x":1}`)
	if _, err := s.OpenRun(t.Context(), "default", n); !errors.Is(err, job.ErrConflict) {
		t.Errorf("other parameters: got %v, want job.ErrConflict", err)
	}
	n.ID = first.ID
	if again, err := s.OpenRun(t.Context(), "default", n); err != nil || again.ID != first.ID {
		t.Errorf("one that has its id: got %s, %v, want %s", again.ID, err, first.ID)
	}
	list, next, err := s.ListRuns(t.Context(), "default", "", 10)
	if err != nil || next != "" || len(list) != 1 || list[0].ID != first.ID || list[0].State != job.Running || list[0].Created.IsZero() {
		t.Errorf("got %+v, %v, want one run", list, err)
	}
}

// TestRunMemory: a run gives back what it counted, and nothing else.
func TestRunMemory(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 100)
	r := s.newRun(t)
	for i := range 20 {
		if err := s.RefuseItem(t.Context(), r, "a", i, 1, fmt.Sprint("why ", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.DecideStep(t.Context(), r, "a", "x"); err != nil {
		t.Fatal(err)
	}
	if err := s.EndRun(t.Context(), s.mustRun(t, r.ID), RunEnd{Status: job.Failed, Outputs: []byte(`{"a":1}`)}); err != nil {
		t.Fatal(err)
	}
	if n := s.rdb.Get(t.Context(), recordedKey("default")).Val(); n == "" || n == "0" {
		t.Errorf("got %q bytes recorded while the run is kept", n)
	}
	if err := s.rdb.Del(t.Context(), runKey("default", r.ID), runItemsKey("default", r.ID)).Err(); err != nil { // it expires
		t.Fatal(err)
	}
	if err := s.forget(t.Context(), "default", r.ID, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if n := s.rdb.Get(t.Context(), recordedKey("default")).Val(); n != "" && n != "0" {
		t.Errorf("got %s bytes recorded of nothing", n)
	}
	if ids, _, err := s.ListRuns(t.Context(), "default", "", 10); err != nil || len(ids) != 0 {
		t.Errorf("got %d, %v, want no run", len(ids), err)
	}
}

// TestReasonsAreBounded: of a run whose jobs are all refused it is noted why of the first, and that they are refused of all.
func TestReasonsAreBounded(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 100)
	r := s.newRun(t)
	size := func() int64 {
		t.Helper()
		n, err := s.RunSize(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before, why := size(), strings.Repeat("w", 500)
	for range 2 { // the same once more changes nothing
		for i := range mostWhys + 50 {
			if err := s.RefuseItem(t.Context(), r, "a", i, 1, why); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, item := range s.mustRun(t, r.ID).Items["a"] {
		if item.Status != Refused || (item.Why == why) != (i < mostWhys) {
			t.Errorf("item %d: got %+v", i, item)
		}
	}
	if most := before + int64(mostWhys*textCost(len("why:a:99")+len(why))); size() > most {
		t.Errorf("got a run of %d bytes, want %d at most", size(), most)
	}
}
