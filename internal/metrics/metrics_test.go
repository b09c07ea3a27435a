package metrics

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wants checks that each of these is a line of what is scraped.
func wants(t *testing.T, r *prometheus.Registry, lines ...string) {
	t.Helper()
	text := scrape(t, r)
	for _, line := range lines {
		if !strings.Contains(text, "\n"+line+"\n") {
			name, _, _ := strings.Cut(line, "{")
			name, _, _ = strings.Cut(name, " ")
			got := "nothing"
			for l := range strings.Lines(text) {
				if strings.HasPrefix(l, name) && !strings.Contains(l, "_bucket") {
					got += "\n" + l
				}
			}
			t.Errorf("want %s, got %s", line, got)
		}
	}
}

// TestRecords follows jobs through a real Redis, and counts what became of them.
func TestRecords(t *testing.T) {
	t.Parallel()
	server := gbtest.Redis(t)
	r := NewRegistry("v1")
	ctx := t.Context()
	s, err := record.Open(ctx, record.Config{URL: server.URL(), Observer: NewRecords(r, []string{"python"})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.Redis().AddHook(NewRedis(r))
	queues := NewQueues(r)
	wants(t, r, `glovebox_redis_up 0`)
	queues.Watch(s)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	create := func(runtime, tenant string) string {
		t.Helper()
		id := job.NewID(tenant)
		must(s.Create(ctx, id, job.Spec{Runtime: runtime, Callback: &job.Callback{URL: "https://example.com"}}, ""))
		return id
	}
	start := func(id string, epoch int) record.Record {
		t.Helper()
		j, err := s.Start(ctx, id, epoch, "w1")
		must(err)
		return j
	}

	must(s.Fleet.Beat(ctx, fleet.Worker{ID: "w1", Concurrency: 8})) // room for all of them in the queue
	ended := create("python", "default")
	must(s.End(ctx, start(ended, 1), record.Ending{Status: job.Failed, Result: []byte("{}")}))
	canceled := create("the tenant's own words", "acme")
	_, err = s.Cancel(ctx, canceled, []byte("{}"))
	must(err)
	lost := create("python", "default")
	start(lost, 1)
	_, err = s.Requeue(ctx, lost, 1, "w1", record.CostAttempt, 0)
	must(err)
	start(lost, 2) // a second try, whose wait is not measured
	waiting := create("python", "acme")
	own := job.NewID("acme")
	must(s.Create(ctx, own, job.Spec{Image: "acme.example/words@sha256:00", Command: []string{"x"}}, ""))
	d, err := s.GetDelivery(ctx, "default", record.DeliveryID(ended, job.EventCompleted, "https://example.com"))
	must(err)
	must(s.Attempted(ctx, d, record.Outcome{State: record.Pending, Status: 500, Problem: "no", Next: time.Now().Add(time.Hour)}, record.Pace{Most: 16}))
	must(s.Attempted(ctx, d, record.Outcome{State: record.Pending, Status: 500, Problem: "no", Next: time.Now()}, record.Pace{Most: 16})) // an answer that got lost, asked again
	d.Attempt++
	must(s.Attempted(ctx, d, record.Outcome{State: record.Delivered, Status: 200}, record.Pace{Most: 16}))

	var beats sync.WaitGroup
	for range 20 { // more connections, each of which is set up
		beats.Go(func() {
			if err := s.Ping(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	beats.Wait()
	wants(
		t, r,
		`glovebox_jobs_accepted_total{priority="normal",runtime="python"} 3`,
		`glovebox_jobs_accepted_total{priority="normal",runtime="other"} 1`,
		`glovebox_jobs_ended_total{runtime="python",status="failed"} 1`,
		`glovebox_jobs_ended_total{runtime="other",status="canceled"} 1`,
		`glovebox_jobs_requeued_total{cost="attempt"} 1`,
		`glovebox_jobs_requeued_total{cost="outage"} 0`,
		`glovebox_job_pickup_seconds_count{priority="normal"} 2`,
		`glovebox_job_queue_seconds_count{priority="normal"} 2`,
		`glovebox_delivery_attempts_total{outcome="retry"} 1`,
		`glovebox_delivery_attempts_total{outcome="delivered"} 1`,
		`glovebox_delivery_seconds_count 1`,
		`glovebox_redis_up 1`,
		`glovebox_jobs_accepted_total{priority="normal",runtime="image"} 1`,
		`glovebox_jobs_queued 2`,
		`glovebox_jobs_scheduled 0`,
		`glovebox_jobs_held 0`,
		`glovebox_jobs_waiting{tenants="over_window"} 0`,
		`glovebox_jobs_waiting{tenants="within_window"} 2`,
		`glovebox_backlog_oldest_seconds 0`,
		`glovebox_backlog_unserved_jobs 0`,
		`glovebox_jobs_running 1`,
		`glovebox_deliveries_pending 1`,
		`glovebox_redis_errors_total{reason="connection"} 0`,
		`glovebox_redis_errors_total{reason="refused"} 0`,
	)
	if err := s.Redis().Do(ctx, "SET", "a").Err(); err == nil {
		t.Error("half a SET")
	}
	wants(t, r, `glovebox_redis_errors_total{reason="refused"} 1`)
	text := scrape(t, r)
	for _, secret := range []string{"acme", "default", "words", waiting, "example.com"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in what is scraped", secret)
		}
	}

	t.Log("a Redis that is full answers what there is to do, and is none that works")
	limit := func(bytes string) {
		t.Helper()
		must(s.Redis().Do(ctx, "CONFIG", "SET", "maxmemory", bytes).Err())
		time.Sleep(lookFor + 100*time.Millisecond) // a look holds for a second
	}
	limit("1")
	wants(t, r, `glovebox_redis_up 0`, `glovebox_jobs_queued 2`)
	limit("0")
	wants(t, r, `glovebox_redis_up 1`, `glovebox_jobs_queued 2`)

	t.Log("without Redis, all is answered that doesn't come from it")
	server.Kill()
	time.Sleep(lookFor + 100*time.Millisecond) // a look holds for a second
	if err := s.Fleet.Beat(ctx, fleet.Worker{ID: "w1"}); err == nil {
		t.Error("a beat without Redis")
	}
	wants(t, r, `glovebox_redis_up 0`, `glovebox_jobs_ended_total{runtime="python",status="failed"} 1`)
	text = scrape(t, r)
	if strings.Contains(text, "glovebox_jobs_queued ") || strings.Contains(text, `glovebox_redis_errors_total{reason="connection"} 0`) {
		t.Error("the outage is not to be seen")
	}
}

// TestQueueDepth looks at tasks that wait, at one that waits for long, and at many tenants.
func TestQueueDepth(t *testing.T) {
	t.Parallel()
	s, err := record.Open(t.Context(), record.Config{URL: gbtest.Redis(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	began := time.Now()
	const tenants = 1201 // more than one round trip asks of
	for i := range tenants {
		spec := job.Spec{Runtime: "python"}
		if i == 0 {
			spec.Priority = job.High
		}
		if err := s.Create(t.Context(), job.NewID(fmt.Sprintf("t%d", i)), spec, ""); err != nil {
			t.Fatal(err)
		}
	}
	ofPool := queue.RunTask(job.NewID("t0"), 1, job.Normal, time.Now()).InPool("pool=exams") // which counts as what it is
	if err := s.Queue.Enqueue(t.Context(), ofPool); err != nil {
		t.Fatal(err)
	}
	d, err := s.Depth(t.Context())
	if err != nil || d.Queued != tenants || len(d.Queues) != 6 {
		t.Fatalf("got %+v, %v", d, err)
	}
	for _, q := range d.Queues {
		want := map[string]int{"high": 1, "normal": tenants}[q.Name]
		if q.Waiting != want || (q.Oldest > 0) != (want > 0) || q.Oldest > time.Since(began) {
			t.Errorf("got %+v, want %d waiting since the test began", q, want)
		}
	}
}

// TestS3 tells requests apart that succeed, that say no, and that find no server.
func TestS3(t *testing.T) {
	t.Parallel()
	server := gbtest.S3(t)
	r := NewRegistry("v1")
	c := artifacts.Config{
		Endpoint: server.Endpoint, Region: server.Region, Bucket: "glovebox", AccessKey: server.AccessKey, SecretKey: server.SecretKey,
		PathStyle: true, MaxAttempts: 2, Observe: NewS3(r).Observe,
	}
	open := func() *artifacts.Store {
		t.Helper()
		s, err := artifacts.Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	s := open()
	if err := s.EnsureBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil { // which is refused without credentials, as it is to be
		t.Fatal(err)
	}
	if _, err := s.GetBytes(t.Context(), "none", 1); !errors.Is(err, artifacts.ErrNotFound) {
		t.Fatal(err)
	}
	if strings.Contains(scrape(t, r), "glovebox_s3_errors_total{") {
		t.Errorf("answers are counted as errors:\n%s", scrape(t, r))
	}
	wants(t, r, `glovebox_s3_request_seconds_count{operation="PutObject"} 2`, `glovebox_s3_request_seconds_count{operation="GetObject"} 1`)

	c.SecretKey = "another"
	if _, err := open().GetBytes(t.Context(), "none", 1); err == nil {
		t.Error("read with a wrong key")
	}
	server.Kill()
	if _, err := s.GetBytes(t.Context(), "none", 1); err == nil {
		t.Error("read from nobody")
	}
	wants(
		t, r,
		`glovebox_s3_errors_total{operation="GetObject",reason="refused"} 1`,
		`glovebox_s3_errors_total{operation="GetObject",reason="connection"} 2`, // two attempts
	)
}

func TestHandler(t *testing.T) {
	t.Parallel()
	r, _ := every(t)
	text := scrape(t, r)
	for _, want := range []string{"\ngo_goroutines ", "\nprocess_resident_memory_bytes ", `glovebox_build_info{version="v1"} 1`, `glovebox_http_request_seconds_count{code="200",route="GET /v1/jobs/{id}"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	NewHTTP(NewRegistry("v2")).Observe("", http.StatusNotFound, 0)
}

// BenchmarkJob is everything that is counted and measured of one job in a worker, S3 and
// Redis left out.
func BenchmarkJob(b *testing.B) {
	r := NewRegistry("v1")
	w, records := NewWorker(r, []string{"bash", "node", "python"}), NewRecords(r, []string{"bash", "node", "python"})
	j := record.Record{Attempts: 1, Epoch: 1, Priority: job.Normal, Created: time.Now(), Started: time.Now().Add(time.Second)}
	made := []job.Artifact{{Kind: job.KindChart, Size: 1000}}
	b.ReportAllocs()
	for b.Loop() {
		w.Took(1)
		w.Reserved(1 << 20)
		records.Started(j)
		w.Ran("python", "cold", time.Second, job.Usage{WallMS: 10, CPUMS: 10}, made)
		records.Ended("python", job.Succeeded)
		w.Reserved(-1 << 20)
		w.Took(-1)
	}
}

// BenchmarkRequest is what is measured of one request to the API.
func BenchmarkRequest(b *testing.B) {
	h := NewHTTP(NewRegistry("v1"))
	b.ReportAllocs()
	for b.Loop() {
		h.Observe("GET /v1/jobs/{id}", http.StatusOK, time.Millisecond)
	}
}

// BenchmarkCall is what is measured of one call of Redis.
func BenchmarkCall(b *testing.B) {
	m := NewRedis(NewRegistry("v1"))
	b.ReportAllocs()
	for b.Loop() {
		m.called(time.Now(), nil)
	}
}
