package record

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

const hook = "https://example.com/hook"

// done is a job with a callback that a worker ended in epoch 1.
func (s *Store) done(t *testing.T, spec job.Spec, e Ending) Record {
	t.Helper()
	id := job.NewID("default")
	spec.Runtime, spec.Callback = "python", &job.Callback{URL: hook}
	if err := s.Create(t.Context(), id, spec, ""); err != nil {
		t.Fatal(err)
	}
	j, err := s.Start(t.Context(), id, 1, "w1")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.End(t.Context(), j, e); err != nil {
		t.Fatal(err)
	}
	if j, err = s.Get(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return j
}

// traces are the keys, and the members of keys, that name the job or its delivery.
func (s *Store) traces(t *testing.T, id string) []string {
	t.Helper()
	ctx, did := t.Context(), DeliveryID(id, job.EventCompleted, hook)
	names := func(text string) bool { return strings.Contains(text, id) || strings.Contains(text, did) }
	keys, err := s.rdb.Keys(ctx, "gb:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, k := range keys {
		var members []string
		switch kind := s.rdb.Type(ctx, k).Val(); kind {
		case "hash":
			for field, value := range s.rdb.HGetAll(ctx, k).Val() {
				members = append(members, field+" "+value)
			}
		case "zset":
			members = s.rdb.ZRange(ctx, k, 0, -1).Val()
		case "set":
			members = s.rdb.SMembers(ctx, k).Val()
		case "string":
			members = []string{s.rdb.Get(ctx, k).Val()}
		}
		if names(k) || strings.Contains(strings.Join(members, "\n"), id) || strings.Contains(strings.Join(members, "\n"), did) {
			found = append(found, k)
		}
	}
	return found
}

func (s *Store) mustStore(t *testing.T, want int64) {
	t.Helper()
	if n, err := s.stored(t.Context(), "default"); err != nil || n != want {
		t.Errorf("got %d bytes stored, %v; want %d", n, err, want)
	}
}

func TestResultLeavesRedisBeforeItsRecord(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{ResultLife: time.Minute})
	large := []byte(strings.Repeat("x", MaxInline))
	for _, c := range []struct {
		name string
		spec job.Spec
		e    Ending
		life time.Duration // of the result; 0 for as long as the record
	}{
		{"beside result.json", job.Spec{}, Ending{Status: job.Succeeded, Result: large, ResultRef: "k"}, time.Minute},
		{"of a short retention", job.Spec{RetentionSeconds: 30}, Ending{Status: job.Succeeded, Result: large, ResultRef: "k"}, 30 * time.Second},
		{"alone", job.Spec{}, Ending{Status: job.InternalError, Result: []byte(`{"a":1}`)}, 0},
		{"in the bucket only", job.Spec{}, Ending{Status: job.Succeeded, ResultRef: "k"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, j := t.Context(), s.done(t, c.spec, c.e)
			if string(j.Result) != string(c.e.Result) || j.ResultRef != c.e.ResultRef {
				t.Errorf("got a result of %d bytes and reference %q", len(j.Result), j.ResultRef)
			}
			left := s.rdb.PTTL(ctx, resultKey("default", j.ID)).Val()
			if c.life > 0 && (left > c.life || left < c.life-10*time.Second) || c.life == 0 && left > 0 {
				t.Errorf("the result leaves in %s, want %s", left, c.life)
			}
			if err := s.rdb.Del(ctx, resultKey("default", j.ID)).Err(); err != nil { // it leaves
				t.Fatal(err)
			}
			j, err := s.Get(ctx, j.ID)
			if want := c.e.ResultRef == ""; err != nil || (j.Result != nil) != want || j.State != c.e.Status {
				t.Errorf("after that: got %+v, %v; a result: want %v", j, err, want)
			}
			if n := s.rdb.MemoryUsage(ctx, jobKey("default", j.ID), 0).Val(); n > 1500 { // 0: of all fields, not five by chance
				t.Errorf("the record takes %d bytes", n)
			}
		})
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{Retention: time.Hour})
	ctx := t.Context()
	for _, c := range []struct{ tenant, spec, want int64 }{
		{0, 0, 3600},
		{0, 60, 60},
		{0, 7200, 3600}, // producer refuses it before
		{1800, 0, 1800},
		{1800, 60, 60},
		{1800, 3600, 1800},
		{7200, 0, 3600},
	} {
		got := s.retentionOf(job.Spec{RetentionSeconds: c.spec}, job.Terms{RetentionSeconds: c.tenant})
		if want := time.Duration(c.want) * time.Second; got != want {
			t.Errorf("tenant %d, job %d: got %s, want %s", c.tenant, c.spec, got, want)
		}
	}
	if _, err := s.CreateTenant(ctx, "default", job.Terms{RetentionSeconds: 1800}); err != nil {
		t.Fatal(err)
	}
	for seconds, want := range map[int64]time.Duration{0: 30 * time.Minute, 60: time.Minute} {
		j := s.done(t, job.Spec{RetentionSeconds: seconds}, Ending{Status: job.Succeeded, Result: []byte("{}"), ResultRef: "k", Stored: 7})
		if left := s.rdb.PTTL(ctx, jobKey("default", j.ID)).Val(); left > want || left < want-10*time.Second {
			t.Errorf("%d: the record goes in %s, want %s", seconds, left, want)
		}
		if !j.Expires().Equal(j.Finished.Add(want)) {
			t.Errorf("%d: expires %s, finished %s", seconds, j.Expires(), j.Finished)
		}
		due := s.rdb.ZScore(ctx, garbageKey("default"), j.ID).Val()
		if want := float64(ms(j.Expires().Add(expiredDelay))); due != want {
			t.Errorf("%d: objects go at %.0f, want %.0f", seconds, due, want)
		}
		d, err := s.GetDelivery(ctx, "default", DeliveryID(j.ID, job.EventCompleted, hook))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Attempted(ctx, d, Outcome{State: Delivered, Status: 200}, Pace{Most: 16}); err != nil {
			t.Fatal(err)
		}
		if left := s.rdb.PTTL(ctx, deliveryKey("default", d.ID)).Val(); left > want || left < want-10*time.Second {
			t.Errorf("%d: the delivery goes in %s, want %s", seconds, left, want)
		}
	}
}

// A delivery that is still tried when its job has expired goes with its last attempt.
func TestDeliveryAfterTheRetention(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{})
	j := s.done(t, job.Spec{RetentionSeconds: 60}, Ending{Status: job.Succeeded, Result: []byte("{}"), ResultRef: "k"})
	key := deliveryKey("default", DeliveryID(j.ID, job.EventCompleted, hook))
	if err := s.rdb.HSet(t.Context(), key, "expires", ms(time.Now().Add(-time.Hour))).Err(); err != nil {
		t.Fatal(err)
	}
	d, err := s.GetDelivery(t.Context(), "default", DeliveryID(j.ID, job.EventCompleted, hook))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Attempted(t.Context(), d, Outcome{State: Exhausted, Status: 0, Problem: "the result is gone"}, Pace{Most: 16}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetDelivery(t.Context(), "default", d.ID); !errors.Is(err, ErrNoDelivery) {
		t.Errorf("got %v, want no delivery", err)
	}
}

// A worker may spoil a record. The job comes to its end all the same.
func TestRecordWithoutRetention(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	id := job.NewID("default")
	if err := s.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.rdb.HDel(ctx, jobKey("default", id), "retention", "created").Err(); err != nil {
		t.Fatal(err)
	}
	j, err := s.Start(ctx, id, 1, "w1")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.End(ctx, j, Ending{Status: job.Succeeded, ResultRef: "k"}); err != nil {
		t.Fatal(err)
	}
	if left := s.rdb.PTTL(ctx, jobKey("default", id)).Val(); left < s.retention-time.Minute {
		t.Errorf("it goes in %s, want in %s", left, s.retention)
	}
}
