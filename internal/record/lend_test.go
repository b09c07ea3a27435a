package record

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// taken is what Redis says that the tenant's events and results take.
func (s *Store) taken(t *testing.T) (bytes int64) {
	t.Helper()
	for _, k := range s.rdb.Keys(t.Context(), "gb:{default}:*").Val() {
		if strings.Contains(k, ":events:") || strings.Contains(k, ":result:") {
			bytes += s.rdb.MemoryUsage(t.Context(), k, 0).Val()
		}
	}
	return bytes
}

func (s *Store) begun(t *testing.T) Record {
	t.Helper()
	id := job.NewID("default")
	if err := s.Create(t.Context(), id, job.Spec{Runtime: "python"}, ""); err != nil {
		t.Fatal(err)
	}
	return s.mustStart(t, id, 1)
}

// print publishes so many pieces of 32 KiB, from event first on.
func (s *Store) print(t *testing.T, j Record, first int, pieces int) {
	t.Helper()
	for i := range pieces {
		e := Event{Type: EventStdout, Offset: int64(first+i-1) << 15, Data: bytes.Repeat([]byte{'x'}, 32<<10)}
		if err := s.Publish(t.Context(), j, first+i, []Event{e}); err != nil {
			t.Fatal(err)
		}
	}
}

// However many jobs print, their streams together are bounded: those of jobs that have
// ended go first, then those of jobs that have been silent longest, and who prints goes on.
func TestEventsAreBoundedInSum(t *testing.T) {
	t.Parallel()
	s, ctx := openStore(t, Config{}), t.Context()
	s.lendMost = 8 << 20
	before := s.usedMemory(t)
	silent, printing := s.begun(t), s.begun(t)
	s.print(t, silent, 1, 8)
	s.print(t, printing, 1, 8)
	var ended []Record
	for i := range 16 { // 16 MiB and more, for a minute after their end as somebody watches them
		j := s.begun(t)
		if _, err := s.Watch(ctx, j.ID); err != nil {
			t.Fatal(err)
		}
		s.print(t, j, 1, 40)
		if err := s.End(ctx, j, Ending{Status: job.Succeeded, Result: []byte("{}"), ResultRef: "k"}); err != nil {
			t.Fatal(err)
		}
		ended = append(ended, j)
		s.print(t, printing, 9+i, 1)
	}
	if taken, used := s.taken(t), s.usedMemory(t)-before; taken > s.lendMost || taken < s.lendMost/2 || used > s.lendMost*5/4 {
		t.Errorf("events take %d bytes, and Redis %d more than before; want %d at most", taken, used, s.lendMost)
	}
	if events, err := s.Events(ctx, ended[0].ID, "", 100); err != nil || len(events) > 0 {
		t.Errorf("of the first that ended: %d events, %v, want none", len(events), err)
	}
	for _, id := range []string{ended[15].ID, printing.ID, silent.ID} {
		if events, err := s.Events(ctx, id, "", 100); err != nil || len(events) == 0 {
			t.Errorf("%s has no events, %v", id, err)
		}
	}
	// Only jobs that run are left: the one that was silent longest gives way.
	for range 8 {
		s.print(t, s.begun(t), 1, 40)
		s.print(t, printing, 25, 1) // its answer got lost, each time
	}
	if events, err := s.Events(ctx, silent.ID, "", 100); err != nil || len(events) > 0 {
		t.Errorf("of the silent one: %d events, %v, want none", len(events), err)
	}
	s.print(t, silent, 9, 2)
	if events, err := s.Events(ctx, silent.ID, "", 100); err != nil || len(events) != 2 || events[0].Seq != 9 {
		t.Errorf("of the silent one, which prints again: got %d events, %v, want the two new ones", len(events), err)
	}
	if taken := s.taken(t); taken > s.lendMost {
		t.Errorf("events take %d bytes, want %d at most", taken, s.lendMost)
	}
}

// Results that are in the bucket, too, leave Redis before their time where there are many.
func TestResultsAreBoundedInSum(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	s.lendMost = 4 << 20
	large := bytes.Repeat([]byte{'x'}, MaxInline)
	var jobs []Record
	for range 100 {
		jobs = append(jobs, s.done(t, job.Spec{}, Ending{Status: job.Succeeded, Result: large, ResultRef: "k"}))
	}
	if taken := s.taken(t); taken > s.lendMost || taken < s.lendMost/2 {
		t.Errorf("results take %d bytes, want %d at most", taken, s.lendMost)
	}
	there := func(j Record) bool { return s.rdb.Exists(ctx, resultKey("default", j.ID)).Val() == 1 }
	if i := slices.IndexFunc(jobs, there); i < 1 || !there(jobs[99]) {
		t.Errorf("the first result that is there is that of job %d, want the last ones", i)
	}
	// Nothing is counted of what was purged or has expired.
	if err := errors.Join(s.Purge(ctx, jobs[99].ID), s.Purged(ctx, jobs[99].ID)); err != nil {
		t.Fatal(err)
	}
	if n := s.rdb.ZScore(ctx, lentKey("default"), "result:"+jobs[99].ID); n.Err() == nil {
		t.Error("a purged result is still counted")
	}
	w.forward(2 * time.Hour)
	if err := s.Purged(ctx, jobs[98].ID); err != nil {
		t.Fatal(err)
	}
	if left := s.rdb.Keys(ctx, lentKey("default")+"*").Val(); len(left) > 0 {
		t.Errorf("results have expired, and are counted: %v", left)
	}
}
