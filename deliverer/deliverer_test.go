package deliverer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
	"github.com/glovebox-run/glovebox/producer/producertest"
	"github.com/glovebox-run/glovebox/webhook"
)

// bench is a deliverer at work, and jobs that end.
type bench struct {
	*producertest.Env
	config deliverer.Config
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{Env: producertest.New(t, "")}
	b.Runtimes(t)
	b.config = deliverer.Config{
		Records: b.Records, Client: b.Client, Links: b.Links, Sender: b.sender(t, time.Minute), Keys: b.WebhookKeys,
		Schedule: schedule(0, 10*time.Millisecond, 10*time.Millisecond), Interval: 10 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	return b
}

// sender may go to loopback.
func (b *bench) sender(t *testing.T, timeout time.Duration) *webhook.Sender {
	t.Helper()
	loopback, err := webhook.ParseTarget("127.0.0.0/8:*")
	if err != nil {
		t.Fatal(err)
	}
	sender := webhook.New(webhook.Config{Guard: webhook.NewGuard(webhook.GuardConfig{Allow: []webhook.Target{loopback}}), Timeout: timeout})
	t.Cleanup(sender.Close)
	return sender
}

func schedule(delays ...time.Duration) webhook.Schedule { return webhook.Schedule{Delays: delays} }

// run starts a deliverer, which ends with the test or when stop is called.
func (b *bench) run(t *testing.T) (stop func()) {
	t.Helper()
	d, err := deliverer.New(b.config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// verifiers are what a tenant knows: a receiver of its verifies with the first.
func (b *bench) verifiers(t *testing.T, tenant string) []webhook.Verifier {
	t.Helper()
	var list []webhook.Verifier
	for _, s := range b.webhookSecrets(t, tenant) {
		secret, err := webhook.ParseSecret(s.Secret)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, secret)
	}
	return list
}

func (b *bench) webhookSecrets(t *testing.T, tenant string) []producer.WebhookSecret {
	t.Helper()
	secrets, err := b.Client.For(tenant).WebhookSecrets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return secrets
}

// end has a job end whose callback is url, and returns its delivery's id.
func (b *bench) end(t *testing.T, url string, change func(*job.Result)) (jobID, deliveryID string) {
	t.Helper()
	return b.endOf(t, "default", url, change)
}

// endOf has a job of a tenant end.
func (b *bench) endOf(t *testing.T, tenant, url string, change func(*job.Result)) (jobID, deliveryID string) {
	t.Helper()
	j, err := b.Client.For(tenant).Submit(t.Context(), job.Spec{Runtime: "python", Source: "1", Callback: &job.Callback{URL: url}})
	if err != nil {
		t.Fatal(err)
	}
	b.End(t, b.Start(t, j.ID), nil, change)
	return j.ID, record.DeliveryID(j.ID, job.EventCompleted, url)
}

// settled returns the delivery once it is in the state.
func (b *bench) settled(t *testing.T, id string, state record.DeliveryState) record.Delivery {
	t.Helper()
	return b.settledOf(t, "default", id, state)
}

func (b *bench) settledOf(t *testing.T, tenant, id string, state record.DeliveryState) record.Delivery {
	t.Helper()
	var d record.Delivery
	for deadline := time.Now().Add(gbtest.Patience); ; time.Sleep(10 * time.Millisecond) {
		var err error
		if d, err = b.Records.GetDelivery(t.Context(), tenant, id); err == nil && d.State == state {
			return d
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %+v, %v, want state %s", d, err, state)
		}
	}
}

// receiver verifies each message and answers as answer says.
type receiver struct {
	*httptest.Server

	answer func(n int, w http.ResponseWriter, r *http.Request) // n counts from 1

	mu     sync.Mutex
	ids    []string
	bodies [][]byte
	times  []time.Time
}

func (b *bench) receiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	rec := &receiver{answer: answer}
	verifiers := b.verifiers(t, "default")
	rec.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = webhook.Verify(r.Header, body, verifiers, webhook.DefaultTolerance, time.Now())
		}
		if err != nil {
			t.Errorf("verify: %v", err)
		}
		rec.mu.Lock()
		rec.ids, rec.bodies, rec.times = append(rec.ids, r.Header.Get("webhook-id")), append(rec.bodies, body), append(rec.times, time.Now())
		n := len(rec.ids)
		rec.mu.Unlock()
		if rec.answer != nil {
			rec.answer(n, w, r)
		}
	}))
	t.Cleanup(rec.Close)
	return rec
}

// same checks that every message had this id and one body, and returns the body.
func (r *receiver) same(t *testing.T, id string, n int) []byte {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ids) != n {
		t.Fatalf("got %d messages, want %d", len(r.ids), n)
	}
	for i := range r.ids {
		if r.ids[i] != id || string(r.bodies[i]) != string(r.bodies[0]) {
			t.Errorf("message %d: got id %s and body %.80s, want %s and the first body", i, r.ids[i], r.bodies[i], id)
		}
	}
	return r.bodies[0]
}

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

func TestBodyIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.config.BodyBytes = 32 << 10
	b.run(t)
	rec := b.receiver(t, nil)
	out := strings.Repeat("é\x01", 16<<10) // JSON makes a \u0001 six bytes
	_, id := b.end(t, rec.URL, func(r *job.Result) {
		r.Stdout, r.Stderr = out, "short"
		r.Compile = &job.Compile{Output: out}
	})
	b.settled(t, id, record.Delivered)
	body := rec.same(t, id, 1)
	if len(body) > 32<<10 {
		t.Errorf("got a body of %d bytes, want at most %d", len(body), 32<<10)
	}
	var event struct{ Data job.Result }
	if err := json.Unmarshal(body, &event); err != nil {
		t.Fatal(err)
	}
	r := event.Data
	if r.Stdout == "" || !strings.HasPrefix(out, r.Stdout) || r.Stderr != "short" || len(r.Compile.Output) > len(out)/2 {
		t.Errorf("got %d bytes of stdout, %q of stderr, %d of compile output", len(r.Stdout), r.Stderr, len(r.Compile.Output))
	}
	if !strings.HasPrefix(r.StdoutURL, producertest.BaseURL+"/v1/jobs/"+r.ID+"/stdout?token=") || r.StderrURL != "" {
		t.Errorf("got URLs %q and %q, want one for stdout, which was cut", r.StdoutURL, r.StderrURL)
	}
}

// toldWithin ends a job of which a message may have so many bytes, and returns what the message has.
func toldWithin(t *testing.T, most int, result func(*job.Result)) (size int, resultURL string, told job.Result) {
	t.Helper()
	b := newBench(t)
	b.config.BodyBytes = most
	b.run(t)
	rec := b.receiver(t, nil)
	_, id := b.end(t, rec.URL, result)
	b.settled(t, id, record.Delivered)
	body := rec.same(t, id, 1)
	var event struct {
		ResultURL string `json:"result_url"`
		Data      job.Result
	}
	if err := json.Unmarshal(body, &event); err != nil {
		t.Fatal(err)
	}
	return len(body), event.ResultURL, event.Data
}

// TestChartsAreBounded: where a message has no room for the data of charts, these go before anything else is cut.
func TestChartsAreBounded(t *testing.T) {
	t.Parallel()
	chart := []byte(`{"type":"line","title":"T","series":[{"type":"line","label":"` + strings.Repeat("x", 32<<10) + `"}]}`)
	size, resultURL, r := toldWithin(t, 32<<10, func(r *job.Result) {
		r.Stdout = strings.Repeat("o", 20<<10)
		r.Artifacts = []job.Artifact{{Name: "a.png", Chart: chart}, {Name: "b.csv"}}
	})
	if got := string(r.Artifacts[0].Chart); got != `{"type":"line","title":"T","note":"its data are left out: the message would be too large"}` || r.Artifacts[1].Chart != nil {
		t.Errorf("got %s and %s", got, r.Artifacts[1].Chart)
	}
	if resultURL == "" || len(r.Stdout) != 20<<10 || size > 32<<10 {
		t.Errorf("got %d bytes with %q and %d of stdout", size, resultURL, len(r.Stdout))
	}
}

// TestResultsAreBounded: of what an execution showed a message has what it has room for, and says where all of it is.
func TestResultsAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		results int
		text    int // bytes of each text
		most    int // bytes of the body
		want    func(r job.Result) bool
	}{
		"all of it": {2, 1 << 10, 64 << 10, func(r job.Result) bool {
			return len(r.Results) == 2 && len(r.Results[0].Data) == 3 && len(r.Exception.Traceback) == 32<<10
		}},
		"half a text": {2, 40 << 10, 100 << 10, func(r job.Result) bool {
			_, html := r.Results[1].Data["text/html"]
			return len(r.Results) == 2 && !html && len(r.Results[0].Data["text/plain"].Text) > 1<<10 && r.Results[1].Data["image/png"].Artifact != ""
		}},
		"none": {job.MaxShown, 2 << 10, 32 << 10, func(r job.Result) bool {
			return len(r.Results) == 0 && r.ResultsLeftOut == job.MaxShown+3 && r.Exception.Name == "E"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := job.Rendering{Text: strings.Repeat("é", c.text/2)}
			size, resultURL, told := toldWithin(t, c.most, func(r *job.Result) {
				for range c.results {
					r.Results = append(r.Results, job.Shown{Kind: job.ShownDisplay, Data: map[string]job.Rendering{
						"text/plain": text, "text/html": text, "image/png": {Artifact: "a.png"},
					}})
				}
				r.ResultsLeftOut, r.Exception = 3, &job.Exception{Name: "E", Value: "v", Traceback: strings.Repeat("t", 32<<10)}
			})
			if size > c.most || !c.want(told) || (resultURL == "") != (name == "all of it") {
				t.Errorf("got %d bytes with %q and %+.600v", size, resultURL, told)
			}
		})
	}
}

// TestTestsAreBounded: a graded job's message is cut too, and says where its result is whole.
func TestTestsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.config.BodyBytes = 64 << 10
	b.run(t)
	rec := b.receiver(t, nil)
	out := strings.Repeat("\x01", job.ShownOutput)
	var want []string
	jobID, id := b.end(t, rec.URL, func(r *job.Result) {
		r.Verdict = job.WrongAnswer
		for i := range 100 {
			want = append(want, fmt.Sprintf("secret/%d", i))
			r.Tests = append(r.Tests, job.TestResult{
				Name: want[i], Verdict: job.WrongAnswer, Stdout: out, Stderr: out, Feedback: out,
				Difference: &job.Difference{Line: 1, Column: 1, Want: strings.Repeat("\x01", 128), Got: "short"},
			})
		}
	})
	b.settled(t, id, record.Delivered)
	body := rec.same(t, id, 1)
	if len(body) > 64<<10 {
		t.Errorf("got a body of %d bytes, want at most %d", len(body), 64<<10)
	}
	var event struct {
		ResultURL string `json:"result_url"`
		Data      job.Result
	}
	if err := json.Unmarshal(body, &event); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, test := range event.Data.Tests {
		got = append(got, test.Name)
		if test.Stdout == "" || !strings.HasPrefix(out, test.Stdout) || test.Difference == nil || test.Difference.Line != 1 || test.Verdict != job.WrongAnswer {
			t.Fatalf("got %+v", test)
		}
	}
	if event.ResultURL != producertest.BaseURL+"/v1/jobs/"+jobID || !slices.Equal(got, want) {
		t.Errorf("got tests %q, result at %q", got, event.ResultURL)
	}
}

// A job that never ran has a result too, and one whose result is lost is given up.
func TestOddResults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rec := b.receiver(t, nil)
	j, err := b.Client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1", Callback: &job.Callback{URL: rec.URL}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Client.Cancel(t.Context(), j.ID); err != nil {
		t.Fatal(err)
	}
	jobID, lost := b.end(t, rec.URL+"/lost", func(r *job.Result) { r.Stdout = strings.Repeat("x", 64<<10) })
	if _, err := b.Objects.Sweep(t.Context(), "tenants/default/jobs/"+jobID+"/", func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	b.run(t)
	canceled := record.DeliveryID(j.ID, job.EventCompleted, rec.URL)
	b.settled(t, canceled, record.Delivered)
	if d := b.settled(t, lost, record.Exhausted); d.LastError == "" {
		t.Errorf("got %+v, want an error", d)
	}
	if body := string(rec.same(t, canceled, 1)); !strings.Contains(body, `"status":"canceled"`) {
		t.Errorf("got %s, want the result of a canceled job", body)
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
