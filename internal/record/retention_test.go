package record

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/script"
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

func openStore(t *testing.T, c Config) *Store {
	t.Helper()
	c.URL = gbtest.Redis(t).URL()
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
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

// What a spoiled entry doesn't give back goes with the last job of its tenant.
func TestRecordedEndsWithTheLastJob(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	j := s.done(t, job.Spec{Runtime: "python"}, Ending{Status: job.Succeeded, ResultRef: "k"})
	if s.rdb.Get(ctx, recordedKey("default")).Val() == "" {
		t.Fatal("it counts nothing")
	}
	kept := s.rdb.HGet(ctx, script.Key("default", "kept"), j.ID).Val()
	pipe := s.rdb.Pipeline()
	pipe.HSet(ctx, script.Key("default", "kept"), j.ID, kept[:strings.LastIndexByte(kept, ' ')]+" 0") // without what it counts
	pipe.Del(ctx, jobKey("default", j.ID))
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.forget(ctx, "default", j.ID, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if left := s.rdb.Get(ctx, recordedKey("default")).Val(); left != "" {
		t.Errorf("%s bytes are counted of a tenant that has nothing", left)
	}
}

func TestPurge(t *testing.T) {
	t.Parallel()
	w, deleted := sweeping(t)
	s, ctx := w.Records, t.Context()
	ending := Ending{Status: job.Succeeded, Result: []byte("{}"), ResultRef: "k", Stored: 1000}
	other := s.done(t, job.Spec{}, ending)
	j := s.done(t, job.Spec{}, ending)
	if err := s.rdb.XAdd(ctx, &redis.XAddArgs{Stream: eventsKey("default", j.ID), Values: []string{"type", "stdout"}}).Err(); err != nil {
		t.Fatal(err)
	}
	s.mustStore(t, 2000)
	if err := s.Purge(ctx, j.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, j.ID); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("get: got %v, want job.ErrNotFound", err)
	}
	if err := s.Purge(ctx, j.ID); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("purge again: got %v, want job.ErrNotFound", err)
	}
	if got := fmt.Sprint(s.traces(t, j.ID)); got != "[gb:{default}:garbage gb:{default}:kept]" && got != "[gb:{default}:kept gb:{default}:garbage]" {
		t.Errorf("left are %s: want what says that there are objects, and how large", got)
	}
	s.mustStore(t, 2000) // as long as the objects are there

	note := w.DeleteObjects
	w.DeleteObjects = func(context.Context, string, string, int) error { return errors.New("the bucket is away") }
	if err := w.sweepGarbage(ctx, "default"); err == nil {
		t.Error("the failure is not told")
	}
	s.mustStore(t, 2000)
	w.DeleteObjects = note
	w.forward(garbageRetry + time.Second)
	if err := w.sweepGarbage(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	if keep, ok := deleted.Load("default/" + j.ID); !ok || keep != 0 {
		t.Errorf("got keep %v, swept %v; want all of it deleted", keep, ok)
	}
	if left := s.traces(t, j.ID); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	s.mustStore(t, 1000)
	if _, err := s.Get(ctx, other.ID); err != nil {
		t.Errorf("another job: %v", err)
	}
}

// Purged is for a caller that deleted the objects without the sweeper, which looks once more.
func TestPurged(t *testing.T) {
	t.Parallel()
	w, deleted := sweeping(t)
	s, ctx := w.Records, t.Context()
	j := s.done(t, job.Spec{}, Ending{Status: job.Succeeded, Result: []byte("{}"), ResultRef: "k", Stored: 1000})
	if err := errors.Join(s.Purge(ctx, j.ID), s.Purged(ctx, j.ID), s.Purged(ctx, j.ID)); err != nil {
		t.Fatal(err)
	}
	s.mustStore(t, 0)
	if err := w.sweepGarbage(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	if _, ok := deleted.Load("default/" + j.ID); ok {
		t.Error("swept before its time")
	}
	w.forward(secondSweepDelay + time.Second)
	if err := w.sweepGarbage(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	if _, ok := deleted.Load("default/" + j.ID); !ok {
		t.Error("what a try that lost wrote late stays for ever")
	}
	if left := s.traces(t, j.ID); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	s.mustStore(t, 0)
}

// A job that is purged between a sweeper's look at its record and its note of when to
// look again is due now, not when the record would have expired.
func TestPurgeWhileItIsSwept(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	j := s.done(t, job.Spec{}, Ending{Status: job.Succeeded, Result: []byte("{}"), ResultRef: "k", Dirty: true})
	w.DeleteObjects = func(ctx context.Context, _, _ string, _ int) error { return s.Purge(ctx, j.ID) }
	if err := w.sweepGarbage(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	w.forward(time.Second)
	if due, err := w.due(ctx, garbageKey("default")); err != nil || len(due) != 1 {
		t.Errorf("got %v due, %v; want the job that was purged", due, err)
	}
}

func TestPurgeOfAJobThatHasNotEnded(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{})
	id := job.NewID("default")
	if err := s.Create(t.Context(), id, job.Spec{Runtime: "python"}, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), id); !errors.Is(err, job.ErrNotEnded) {
		t.Errorf("queued: got %v, want job.ErrNotEnded", err)
	}
	if _, err := s.Start(t.Context(), id, 1, "w1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), id); !errors.Is(err, job.ErrNotEnded) {
		t.Errorf("running: got %v, want job.ErrNotEnded", err)
	}
	for _, id := range []string{job.NewID("default"), "nothing"} {
		if err := s.Purge(t.Context(), id); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("%s: got %v, want job.ErrNotFound", id, err)
		}
	}
}

// However jobs end and go, and in whatever order it is repeated, the count is that of
// the jobs that are kept.
func TestBytesStoredAreExact(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	const each, jobs = 1000, 60
	ids := make([]string, jobs)
	var all sync.WaitGroup
	for i := range ids {
		j := s.done(t, job.Spec{}, Ending{Status: job.Succeeded, Result: []byte("{}"), ResultRef: "k", Stored: each + int64(i)})
		ids[i] = j.ID
		if err := s.End(ctx, j, Ending{Status: job.Succeeded, ResultRef: "k", Stored: each}); !errors.Is(err, job.ErrEnded) { // its answer got lost
			t.Errorf("a second end: got %v, want job.ErrEnded", err)
		}
	}
	want := int64(0)
	for i, id := range ids {
		switch i % 4 {
		case 0: // stays
			want += each + int64(i)
			continue
		case 1: // expires
			if err := s.rdb.Del(ctx, jobKey("default", id)).Err(); err != nil {
				t.Fatal(err)
			}
			if err := s.rdb.ZAdd(ctx, garbageKey("default"), redis.Z{Member: id}).Err(); err != nil {
				t.Fatal(err)
			}
		case 2: // is purged, the objects by the sweeper
			if err := s.Purge(ctx, id); err != nil {
				t.Fatal(err)
			}
		case 3: // is purged
			all.Go(func() {
				if err := errors.Join(s.Purge(ctx, id), s.Purged(ctx, id)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for range 3 { // as many api processes
		all.Go(func() {
			if err := w.sweepGarbage(ctx, "default"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s.mustStore(t, want)
	if n := s.rdb.HLen(ctx, script.Key("default", "kept")).Val(); n != jobs/4 {
		t.Errorf("%d jobs are kept, want %d", n, jobs/4)
	}
	if n := s.rdb.ZCard(ctx, jobsKey("default")).Val(); n != jobs/4 {
		t.Errorf("%d jobs are listed, want %d", n, jobs/4)
	}
}

func TestQuotaOfBytesStored(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{})
	ctx := t.Context()
	if _, err := s.CreateTenant(ctx, "default", job.Terms{Quotas: job.Quotas{BytesStored: 1000}}); err != nil {
		t.Fatal(err)
	}
	s.done(t, job.Spec{}, Ending{Status: job.Succeeded, ResultRef: "k", Stored: 999})
	j := s.done(t, job.Spec{}, Ending{Status: job.Succeeded, ResultRef: "k", Stored: 5000}) // its own limits' business
	var full *job.Error
	err := s.Create(ctx, job.NewID("default"), job.Spec{Runtime: "python"}, "")
	if !errors.As(err, &full) || full.Code != job.CodeQuotaExceeded || !strings.Contains(full.Message, "bytes_stored (1000)") {
		t.Errorf("got %v, want quota_exceeded for bytes_stored", err)
	}
	if err := s.CheckRoom(ctx, "default", 1); !errors.As(err, &full) {
		t.Errorf("check: got %v, want quota_exceeded", err)
	}
	if now, err := s.ReadTenant(ctx, "default"); err != nil || now.Usage.BytesStored != 5999 {
		t.Errorf("got usage %+v, %v", now.Usage, err)
	}
	if err := errors.Join(s.Purge(ctx, j.ID), s.Purged(ctx, j.ID)); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(ctx, job.NewID("default"), job.Spec{Runtime: "python"}, ""); err != nil {
		t.Errorf("after a purge: %v", err)
	}
}
