package deliverer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

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

// TestMessagesMemory: a delivery whose message finds no memory is put off without an attempt, another tenant's is sent meanwhile, and one that takes more
// than there is goes through alone.
func TestMessagesMemory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.config.MemoryBytes, b.config.MemoryPatience = 64<<10, 10*time.Millisecond
	writing, goOn := make(chan string, 1), make(chan struct{})
	b.config.Translate = func(_ context.Context, _ *direct.Client, r job.Result) ([]byte, error) {
		if r.Metadata["first"] != "" {
			writing <- r.ID
			<-goOn
		}
		return nil, nil
	}
	rec, next, other := b.receiver(t, nil), b.receiver(t, nil), newInbox(t, nil)
	large := func(r *job.Result) { r.Stdout = strings.Repeat("\x01", 60<<10) } // 360 KiB as JSON
	_, first := b.end(t, rec.URL, func(r *job.Result) {
		large(r)
		r.Metadata = map[string]string{"first": "1"}
	})
	b.run(t)
	resume := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(resume) // before the deliverer's end is waited for
	<-writing
	_, second := b.end(t, next.URL, large)
	gbtest.Eventually(t, "the second is put off", func() bool {
		d, err := b.Records.GetDelivery(t.Context(), "default", second)
		return err == nil && !d.Faulty.IsZero() && d.Attempt == 1 && d.State == record.Pending
	})
	_, third := b.endOf(t, "other", other.URL, large)
	b.settledOf(t, "other", third, record.Delivered)
	if n := len(other.got()); n != 1 {
		t.Errorf("another tenant got %d messages, want 1", n)
	}
	resume()
	for _, id := range []string{first, second} {
		if d := b.settled(t, id, record.Delivered); d.Attempt != 1 {
			t.Errorf("got %+v, want it delivered by its first attempt", d)
		}
	}
}

// TestMessageWaitsForJobs: a message that has to wait for other jobs is put off without an attempt, and given up in the end. It is no fault of ours
// of which an operator is told.
func TestMessageWaitsForJobs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	registry := prometheus.NewRegistry()
	b.config.Metrics = metrics.NewDeliverer(registry)
	var others atomic.Bool // whether they have ended
	b.config.Translate = func(_ context.Context, _ *direct.Client, r job.Result) ([]byte, error) {
		if r.Metadata["waits"] != "" && !others.Load() {
			return nil, fmt.Errorf("another run: %w", direct.ErrNotYet)
		}
		return nil, nil
	}
	rec := b.receiver(t, nil)
	b.run(t)
	waits := func(r *job.Result) { r.Metadata = map[string]string{"waits": "1"} }
	putOff := func(id string) {
		t.Helper()
		gbtest.Eventually(t, "it is put off", func() bool {
			d, err := b.Records.GetDelivery(t.Context(), "default", id)
			return err == nil && d.Waits > 0
		})
	}
	_, late := b.end(t, rec.URL+"/late", waits)
	putOff(late)
	if err := b.Raw.HSet(t.Context(), "gb:{default}:delivery:"+late, "created", time.Now().Add(-2*time.Hour).UnixMilli()).Err(); err != nil {
		t.Fatal(err)
	}
	if d := b.settled(t, late, record.Exhausted); d.LastError != "what the message is about has not ended in time" {
		t.Errorf("got %+v, want it given up, and why", d)
	}
	_, id := b.end(t, rec.URL, waits)
	putOff(id)
	others.Store(true)
	if d := b.settled(t, id, record.Delivered); d.Attempt != 1 {
		t.Errorf("got %+v, want it delivered by its first attempt", d)
	}
	rec.same(t, id, 1)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "glovebox_delivery_faults_total" && f.GetMetric()[0].GetCounter().GetValue() != 0 {
			t.Errorf("got %v, want no fault counted", f)
		}
	}
}
