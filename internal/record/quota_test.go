package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

func bytesQueued(t *testing.T, s *record.Store) int64 {
	t.Helper()
	n, err := s.Redis().Get(t.Context(), "gb:{default}:queued").Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return n
}

func sizeOf(t *testing.T, spec job.Spec) int64 {
	t.Helper()
	b, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(b))
}

func exceeded(err error) bool {
	var said *job.Error
	return errors.As(err, &said) && said.Code == job.CodeQuotaExceeded
}

// Whatever becomes of a job, its bytes are counted while it is queued and at no other time.
func TestBytesQueuedOnEveryPath(t *testing.T) {
	t.Parallel()
	type step = func(t *testing.T, s *record.Store, id string, epoch *int)
	begin := func(t *testing.T, s *record.Store, id string, epoch *int) {
		t.Helper()
		start(t, s, id, *epoch, "w")
		start(t, s, id, *epoch, "w") // its answer got lost
	}
	end := func(t *testing.T, s *record.Store, id string, _ *int) {
		t.Helper()
		if err := s.End(t.Context(), get(t, s, id), record.Ending{Status: job.Succeeded, Result: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		_ = s.End(t.Context(), get(t, s, id), record.Ending{Status: job.Succeeded, Result: []byte("{}")}) // once more: refused
	}
	cancel := func(t *testing.T, s *record.Store, id string, _ *int) {
		t.Helper()
		for range 2 {
			if _, err := s.Cancel(t.Context(), id, []byte("{}")); err != nil && !errors.Is(err, job.ErrEnded) {
				t.Fatal(err)
			}
		}
	}
	requeue := func(cost record.Cost, want record.Requeued) step {
		return func(t *testing.T, s *record.Store, id string, epoch *int) {
			t.Helper()
			if got, err := s.Requeue(t.Context(), id, *epoch, "w", cost, 0); err != nil || got != want {
				t.Fatalf("requeue: got %v, %v, want %v", got, err, want)
			}
			_, _ = s.Requeue(t.Context(), id, *epoch, "w", cost, 0) // once more: stale
			if want == record.RequeueOK {
				*epoch++
			}
		}
	}
	lost, drained := requeue(record.CostAttempt, record.RequeueOK), requeue(record.CostNothing, record.RequeueOK)
	outage := requeue(record.CostOutage, record.RequeueOK)
	without := func(status job.Status) step {
		return func(t *testing.T, s *record.Store, id string, epoch *int) {
			t.Helper()
			if err := s.EndUnrun(t.Context(), id, *epoch, status, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, path := range []struct {
		name   string
		steps  []step
		queued bool // at the end
	}{
		{"queued", nil, true},
		{"runs", []step{begin}, false},
		{"runs to its end", []step{begin, end}, false},
		{"canceled while queued", []step{cancel}, false},
		{"ended while queued", []step{without(job.Canceled)}, false},
		{"canceled while running", []step{begin, cancel, without(job.Canceled)}, false},
		{"lost once, queued again", []step{begin, lost}, true},
		{"lost once, then runs to its end", []step{begin, lost, begin, end}, false},
		{"lost once, then canceled", []step{begin, lost, cancel}, false},
		{"drained twice, then ends", []step{begin, drained, begin, drained, begin, end}, false},
		{"handed back by an outage twice", []step{begin, outage, begin, outage}, true},
		{"handed back by an outage, then ends", []step{begin, outage, begin, end}, false},
		{"canceled, then lost", []step{begin, cancel, requeue(record.CostAttempt, record.RequeueCanceled), without(job.Canceled)}, false},
		{"attempts used up", []step{begin, lost, begin, lost, begin, requeue(record.CostAttempt, record.RequeueExhausted), without(job.InternalError)}, false},
	} {
		t.Run(path.name, func(t *testing.T) {
			t.Parallel()
			s, _ := open(t)
			other := spec()
			other.Source = strings.Repeat("#", 100)
			beside := create(t, s, other) // so that the count is never reset
			id, epoch := create(t, s, spec()), 1
			want := sizeOf(t, other)
			if got := bytesQueued(t, s); got != want+sizeOf(t, spec()) {
				t.Fatalf("both queued: got %d bytes, want %d", got, want+sizeOf(t, spec()))
			}
			for _, do := range path.steps {
				do(t, s, id, &epoch)
			}
			if path.queued {
				want += sizeOf(t, spec())
			}
			if got := bytesQueued(t, s); got != want {
				t.Errorf("got %d bytes, want %d", got, want)
			}
			for _, id := range []string{beside, id} {
				if _, err := s.Cancel(t.Context(), id, []byte("{}")); err != nil && !errors.Is(err, job.ErrEnded) {
					t.Fatal(err)
				}
			}
			if path.name == "runs" {
				end(t, s, id, &epoch)
			}
			if n := s.Redis().Exists(t.Context(), "gb:{default}:queued").Val(); n != 0 || s.Redis().ZCard(t.Context(), "gb:{default}:open").Val() != 0 {
				t.Errorf("nothing is queued, but %d bytes are", bytesQueued(t, s))
			}
			if n := s.Redis().Get(t.Context(), "gb:{default}:recorded").Val(); n == "" {
				t.Error("nothing is recorded, and two jobs are kept")
			}
			for _, id := range []string{beside, id} {
				if err := errors.Join(s.Purge(t.Context(), id), s.Purged(t.Context(), id)); err != nil {
					t.Fatal(err)
				}
			}
			if n := s.Redis().Get(t.Context(), "gb:{default}:recorded").Val(); n != "" {
				t.Errorf("nothing is kept, and %s bytes are recorded", n)
			}
		})
	}
}

// A record that expires was counted out when its job ended.
func TestBytesQueuedAfterTheRecordExpired(t *testing.T) {
	t.Parallel()
	_, server := open(t)
	s, err := record.Open(t.Context(), record.Config{URL: server.URL(), Retention: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	id, kept := create(t, s, spec()), create(t, s, spec())
	if _, err := s.Cancel(t.Context(), id, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); s.Redis().Exists(t.Context(), "gb:{default}:job:"+id).Val() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the record did not expire")
		}
	}
	if got := bytesQueued(t, s); got != sizeOf(t, spec()) {
		t.Errorf("got %d bytes, want those of %s", got, kept)
	}
}

// A count that a worker spoiled is right again once nothing is queued.
func TestBytesQueuedHeal(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	s.Redis().IncrBy(t.Context(), "gb:{default}:queued", 1_000_000)
	newTenant(t, s, "default", job.Terms{Quotas: job.Quotas{BytesQueued: 500_000}})
	if err := s.CheckRoom(t.Context(), "default", 1000); err != nil {
		t.Errorf("check: got %v, want room", err)
	}
	create(t, s, spec())
	if got := bytesQueued(t, s); got != sizeOf(t, spec()) {
		t.Errorf("got %d bytes, want %d", got, sizeOf(t, spec()))
	}
}

// However many processes create at once, no more than the quota is queued, nor less.
func TestQuotasAreExact(t *testing.T) {
	t.Parallel()
	const quota, tries = 40, 120
	for name, quotas := range map[string]job.Quotas{
		"jobs":  {JobsQueued: quota},
		"bytes": {BytesQueued: quota*sizeOf(t, spec()) + sizeOf(t, spec())/2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, server := open(t)
			newTenant(t, s, "default", job.Terms{Quotas: quotas})
			processes := []*record.Store{s, process(t, server.URL()), process(t, server.URL())}
			var accepted, refused atomic.Int64
			var all sync.WaitGroup
			for i := range tries {
				all.Go(func() {
					err := processes[i%len(processes)].Create(t.Context(), job.NewID("default"), spec(), "")
					switch {
					case err == nil:
						accepted.Add(1)
					case exceeded(err):
						refused.Add(1)
					default:
						t.Errorf("create: %v", err)
					}
				})
			}
			all.Wait()
			if accepted.Load() != quota || refused.Load() != tries-quota {
				t.Errorf("got %d accepted and %d refused, want %d and %d", accepted.Load(), refused.Load(), quota, tries-quota)
			}
			used, err := s.ReadTenant(t.Context(), "default")
			recorded := used.Usage.BytesRecorded
			if want := (job.TenantUsage{JobsQueued: quota, BytesQueued: quota * sizeOf(t, spec()), BytesRecorded: recorded}); err != nil || used.Usage != want || recorded < quota*2048 {
				t.Errorf("got %+v, %v, want %+v", used.Usage, err, want)
			}
			if err := s.CheckRoom(t.Context(), "default", sizeOf(t, spec())); !exceeded(err) {
				t.Errorf("check of a full queue: got %v, want it refused", err)
			}
			ids := s.Redis().ZRange(t.Context(), "gb:{default}:open", 0, 0).Val()
			start(t, s, ids[0], 1, "w")
			if err := s.CheckRoom(t.Context(), "default", sizeOf(t, spec())); err != nil {
				t.Errorf("one started: got %v, want room", err)
			}
			create(t, s, spec())
			// What was accepted is never refused, not even above the quota.
			if got, err := s.Requeue(t.Context(), ids[0], 1, "w", record.CostAttempt, 0); got != record.RequeueOK || err != nil {
				t.Errorf("requeue: got %v, %v", got, err)
			}
		})
	}
}

// A refused job leaves nothing.
func TestOverQuotaLeavesNothing(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	newTenant(t, s, "default", job.Terms{Quotas: job.Quotas{BytesQueued: 10}})
	id := job.NewID("default")
	if err := s.Create(t.Context(), id, spec(), ""); !exceeded(err) || !strings.Contains(err.Error(), "bytes_queued (10)") {
		t.Errorf("got %v, want a refusal that names the quota", err)
	}
	if _, err := s.Get(t.Context(), id); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("got %v, want no record", err)
	}
	if got := pendingTasks(t, s, "normal"); len(got) != 0 || bytesQueued(t, s) != 0 {
		t.Errorf("got tasks %v and %d bytes, want none", got, bytesQueued(t, s))
	}
}

func TestTakeRequest(t *testing.T) {
	t.Parallel()
	s, server := open(t)
	const quota = 120
	processes := []*record.Store{s, process(t, server.URL())}
	began := time.Now()
	var admitted atomic.Int64
	var all sync.WaitGroup
	for i := range 3 * quota {
		all.Go(func() {
			r, err := processes[i%2].TakeRequest(t.Context(), "acme", quota)
			if err != nil {
				t.Error(err)
			}
			if r.Wait == 0 {
				admitted.Add(1)
			}
			if r.Wait < 0 || r.Wait > time.Minute/quota || r.Remaining < 0 || r.Remaining >= quota || r.Reset <= 0 || r.Reset > time.Minute {
				t.Errorf("got %+v", r)
			}
		})
	}
	all.Wait()
	// Some came back while it lasted: one each half second.
	most := quota + int64(time.Since(began)/(time.Minute/quota)) + 1
	if n := admitted.Load(); n < quota || n > most {
		t.Errorf("got %d admitted at once, want %d to %d", n, quota, most)
	}
	if r, err := s.TakeRequest(t.Context(), "other", quota); err != nil || r.Wait != 0 || r.Remaining != quota-1 {
		t.Errorf("another tenant: got %+v, %v", r, err)
	}
	for {
		r, err := s.TakeRequest(t.Context(), "acme", quota)
		if err != nil {
			t.Fatal(err)
		}
		if r.Wait == 0 {
			break // it was admitted after all it had to wait for
		}
		time.Sleep(r.Wait)
		if time.Since(began) > 30*time.Second {
			t.Fatal("nothing was admitted within 30 s")
		}
	}
	if ttl := s.Redis().PTTL(t.Context(), "gb:{acme}:rate").Val(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("the quota's key lives for %s, want a minute at most", ttl)
	}
}

// Odd quotas neither stop for ever nor overflow.
func TestTakeRequestOfAnyQuota(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	for _, quota := range []int64{1, 7, 59, 61, 1_000_000} {
		tenant := fmt.Sprint("t", quota)
		first, err := s.TakeRequest(t.Context(), tenant, quota)
		if err != nil || first.Wait != 0 || first.Remaining != quota-1 {
			t.Errorf("quota %d: got %+v, %v, want one taken", quota, first, err)
		}
		if quota != 1 {
			continue
		}
		second, err := s.TakeRequest(t.Context(), tenant, quota)
		if err != nil || second.Wait < 50*time.Second || second.Wait > time.Minute {
			t.Errorf("quota 1, again: got %+v, %v, want a wait of a minute", second, err)
		}
		// More than before is allowed now: the wait shrinks, but what was taken stays taken.
		more, err := s.TakeRequest(t.Context(), tenant, 60)
		if err != nil || more.Wait > time.Minute {
			t.Errorf("a larger quota: got %+v, %v", more, err)
		}
	}
}

func TestCreateWithoutRedisIsNoQuota(t *testing.T) {
	t.Parallel()
	s, server := open(t)
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := s.Create(ctx, job.NewID("default"), spec(), ""); err == nil || exceeded(err) {
		t.Errorf("got %v, want a fault", err)
	}
	if _, err := s.TakeRequest(ctx, "default", 10); err == nil {
		t.Error("a request was counted without Redis")
	}
}
