package deliverer_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/deliverer"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func TestDeliver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stop := b.run(t)
	rec := b.receiver(t, nil)
	jobID, id := b.end(t, rec.URL+"/hook", nil)
	d := b.settled(t, id, record.Delivered)
	if d.Attempt != 1 || d.LastStatus != 200 || d.LastError != "" {
		t.Errorf("got %+v, want one attempt, answered 200", d)
	}
	var event struct {
		Type      string
		Timestamp time.Time
		Data      job.Result
	}
	if err := json.Unmarshal(rec.same(t, id, 1), &event); err != nil {
		t.Fatal(err)
	}
	if event.Type != "job.completed" || !event.Timestamp.Equal(d.Created) || event.Data.ID != jobID || event.Data.Stdout != "hello\n" {
		t.Errorf("got %+v, want the result of %s at %s", event, jobID, d.Created)
	}
	stop()
	if j, err := b.Records.Get(t.Context(), jobID); err != nil || j.Attempts != 1 {
		t.Errorf("got %+v, %v, want the job run once", j, err)
	}
}

// A batch is told of once, whatever its jobs are told.
func TestDeliverBatch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.config.BodyBytes = 4 << 10
	b.run(t)
	rec := b.receiver(t, nil)
	jobs := func(yield func(job.Spec, error) bool) {
		for i := range 60 {
			spec := job.Spec{Runtime: "python", Source: "1"}
			if i >= 2 {
				spec.Runtime = "cobol"
			}
			if !yield(spec, nil) {
				return
			}
		}
	}
	submitted, err := b.Client.SubmitBatch(t.Context(), producer.BatchOptions{BatchOptions: job.BatchOptions{Callback: &job.Callback{URL: rec.URL}}}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		b.End(t, b.Start(t, job.ItemID(submitted.ID, i)), nil, nil)
	}
	id := record.DeliveryID(submitted.ID, job.EventBatchCompleted, rec.URL)
	d := b.settled(t, id, record.Delivered)
	body := rec.same(t, id, 1)
	var event struct {
		Type      string
		Timestamp time.Time
		Data      job.Batch
	}
	if err := json.Unmarshal(body, &event); err != nil {
		t.Fatal(err)
	}
	now, err := b.Client.GetBatch(t.Context(), submitted.ID)
	if err != nil || event.Type != "batch.completed" || !event.Timestamp.Equal(d.Created) || event.Data.Status != job.BatchCompleted ||
		event.Data.Counts[job.Succeeded] != 2 || event.Data.ResultsURL != now.ResultsURL || now.ResultsURL == "" {
		t.Errorf("got %s, %v, want the batch as it is: %+v", body, err, now)
	}
	if len(body) > 4<<10 || event.Data.Rejected != 58 || len(event.Data.Errors) == 0 || len(event.Data.Errors) == 58 {
		t.Errorf("got %d bytes with %d of %d errors, want as many as fit", len(body), len(event.Data.Errors), event.Data.Rejected)
	}
}

func TestRetryUntilAccepted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t)
	rec := b.receiver(t, func(n int, w http.ResponseWriter, r *http.Request) {
		switch n {
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
		case 2:
			w.Header().Set("Location", "/elsewhere") // which must not be followed
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	})
	_, id := b.end(t, rec.URL, nil)
	d := b.settled(t, id, record.Delivered)
	rec.same(t, id, 3)
	if d.Attempt != 3 {
		t.Errorf("got attempt %d, want 3", d.Attempt)
	}
}

func TestGivesUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t)
	failing := b.receiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	gone := b.receiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	closed := "http://" + gbtest.Addr(t)
	_, failed := b.end(t, failing.URL, nil)
	jobID, left := b.end(t, gone.URL, nil)
	_, refused := b.end(t, closed, nil)
	_, blocked := b.end(t, "http://10.1.2.3/", nil)

	if d := b.settled(t, failed, record.Exhausted); d.Attempt != 3 || d.LastStatus != 502 || d.LastError == "" {
		t.Errorf("got %+v, want 3 attempts, the last answered 502", d)
	}
	failing.same(t, failed, 3)
	if d := b.settled(t, left, record.Gone); d.Attempt != 1 || d.LastStatus != 410 {
		t.Errorf("got %+v, want 1 attempt answered 410", d)
	}
	gone.same(t, left, 1)
	if d := b.settled(t, refused, record.Exhausted); d.Attempt != 3 || d.LastStatus != 0 || !strings.Contains(d.LastError, "refused") {
		t.Errorf("got %+v, want 3 attempts, the connection refused", d)
	}
	if d := b.settled(t, blocked, record.Exhausted); d.LastStatus != 0 || d.LastError == "" {
		t.Errorf("got %+v, want a blocked address", d)
	}
	if j, err := b.Records.Get(t.Context(), jobID); err != nil || j.Attempts != 1 || j.State != job.Succeeded {
		t.Errorf("got %+v, %v, want a job that ran once", j, err)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t)
	rec := b.receiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	_, id := b.end(t, rec.URL, nil)
	b.settled(t, id, record.Delivered)
	rec.same(t, id, 2)
	if took := rec.times[1].Sub(rec.times[0]); took < 2900*time.Millisecond {
		t.Errorf("tried again after %s, want at least 3s", took)
	}
}

// Redis goes away while the endpoint answers, and what it answered is noted after.
func TestRedisRestarts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t)
	arrived, restarted := make(chan struct{}), make(chan struct{})
	rec := b.receiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			close(arrived)
			<-restarted
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	_, id := b.end(t, rec.URL, nil)
	<-arrived
	b.Redis.Kill()
	time.AfterFunc(300*time.Millisecond, func() { close(restarted) }) // the answer comes while it is away
	time.Sleep(600 * time.Millisecond)
	b.Redis.Restart()
	b.settled(t, id, record.Delivered)
	rec.same(t, id, 2)
}

// An endpoint that hangs takes its own slots and nobody else's.
func TestSlowEndpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.config.Concurrency, b.config.PerEndpoint = 8, 2 // a tenant alone may have four
	b.config.Sender = b.sender(t, 2*time.Minute)
	b.run(t)
	var mu sync.Mutex
	under, most := 0, 0
	release := make(chan struct{})
	slow := b.receiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		under++
		most = max(most, under)
		mu.Unlock()
		select {
		case <-release:
		case <-r.Context().Done():
		}
		mu.Lock()
		under--
		mu.Unlock()
	})
	var held []string
	for range 8 {
		_, id := b.end(t, slow.URL, nil)
		held = append(held, id)
	}
	quick := b.receiver(t, nil)
	start := time.Now()
	for range 3 {
		_, id := b.end(t, quick.URL, nil)
		b.settled(t, id, record.Delivered)
	}
	if took := time.Since(start); took > gbtest.AtOnce {
		t.Errorf("the quick endpoint waited %s for the slow one", took)
	}
	close(release)
	for _, id := range held {
		b.settled(t, id, record.Delivered)
	}
	if most > 2 {
		t.Errorf("%d attempts at once at one endpoint, want at most 2", most)
	}
	slices.Sort(slow.ids)
	if got := slices.Compact(slices.Clone(slow.ids)); len(got) != 8 {
		t.Errorf("got %d message ids, want 8", len(got))
	}
}

// A deliverer that ends lets its attempts end, or cuts them and counts them not.
func TestShutdown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		grace time.Duration
		first int // messages of the first deliverer that the record knows
	}{
		"waits": {grace: time.Minute, first: 1},
		"cuts":  {grace: 50 * time.Millisecond, first: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.config.Grace = test.grace
			stop := b.run(t)
			arrived, answer := make(chan struct{}, 8), make(chan struct{})
			rec := b.receiver(t, func(n int, _ http.ResponseWriter, r *http.Request) {
				arrived <- struct{}{}
				if n > 1 {
					return
				}
				select {
				case <-answer:
				case <-r.Context().Done():
				}
			})
			_, id := b.end(t, rec.URL, nil)
			<-arrived
			if test.first == 1 {
				time.AfterFunc(time.Second, func() { close(answer) }) // while the deliverer ends
			}
			stop()
			d, err := b.Records.GetDelivery(t.Context(), "default", id)
			if err != nil {
				t.Fatal(err)
			}
			if delivered := d.State == record.Delivered; delivered != (test.first == 1) || d.Attempt != 1 {
				t.Errorf("after the end: got %+v, want %d messages noted", d, test.first)
			}
			b.run(t)
			d = b.settled(t, id, record.Delivered)
			if d.Attempt != 1 {
				t.Errorf("got attempt %d, want 1: a cut attempt is not one", d.Attempt)
			}
			rec.same(t, id, 2-test.first)
		})
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	if _, err := deliverer.New(deliverer.Config{}); err == nil {
		t.Error("got nil, want an error for an empty config")
	}
	b := newBench(t)
	b.config.Keys = nil
	if _, err := deliverer.New(b.config); err == nil || !strings.Contains(fmt.Sprint(err), "key") {
		t.Errorf("got %v, want an error about keys", err)
	}
}

func TestOwnFaultsComeBackEverLater(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t)
	rec := b.receiver(t, nil)
	id, did := b.end(t, rec.URL, func(r *job.Result) { r.Stdout = strings.Repeat("x", 60<<10); r.Stderr = strings.Repeat("y", 60<<10) })
	_ = b.settled(t, did, record.Delivered)
	j, err := b.Records.Get(t.Context(), id)
	if err != nil || j.Result != nil {
		t.Fatalf("got %d bytes of result in the record, %v; want it in the bucket", len(j.Result), err)
	}
	// The same again, of a job whose result nobody can read and that ended an hour ago. It has been put off once: under the id
	// of the first time asynq may still have the task that delivered it.
	if _, err := b.Objects.PutBytes(t.Context(), j.ResultRef, "application/json", []byte("{")); err != nil {
		t.Fatal(err)
	}
	due := time.Now().Add(-time.Hour)
	if err := b.Raw.HSet(t.Context(), "gb:{default}:delivery:"+did, "state", "pending", "due", due.UnixMilli(), "waits", 1).Err(); err != nil {
		t.Fatal(err)
	}
	if err := b.Records.Queue.Enqueue(t.Context(), queue.DeliverTask("default", did, queue.Turn{Attempt: 1, Waits: 1}, false, time.Time{})); err != nil {
		t.Fatal(err)
	}
	gbtest.Eventually(t, "it is put off", func() bool {
		d, err := b.Records.GetDelivery(t.Context(), "default", did)
		return err == nil && d.Waits == 2
	})
	d, err := b.Records.GetDelivery(t.Context(), "default", did)
	if err != nil || time.Until(d.Due) < 5*time.Minute || d.State != record.Pending {
		t.Errorf("got %+v, %v: want it put off for long, as it has failed for an hour", d, err)
	}
	_, next := b.end(t, rec.URL, nil) // to the same host, whose only place is free
	b.settled(t, next, record.Delivered)

	// Faults count toward a delivery's patience.
	err = b.Raw.HSet(t.Context(), "gb:{default}:delivery:"+did, "created", time.Now().Add(-2*time.Hour).UnixMilli(), "waits", 3).Err()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Records.Queue.Enqueue(t.Context(), queue.DeliverTask("default", did, queue.Turn{Attempt: 1, Waits: 3}, false, time.Time{})); err != nil {
		t.Fatal(err)
	}
	if d = b.settled(t, did, record.Exhausted); len(d.Log) == 0 || d.Log[len(d.Log)-1].Status != 0 || d.LastError == "" {
		t.Errorf("got %+v, want it given up, and why", d)
	}
}
