package producer_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/api"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// cut is an answer whose connection breaks after some bytes.
type cut struct {
	http.ResponseWriter
	left int
}

func (c *cut) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *cut) Write(p []byte) (int, error) {
	if len(p) < c.left {
		c.left -= len(p)
		return c.ResponseWriter.Write(p)
	}
	_, _ = c.ResponseWriter.Write(p[:c.left])
	_ = http.NewResponseController(c.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

// TestWatchOverBrokenConnections: a watch over a network that breaks all the time, at any
// byte, sees nothing twice and loses nothing.
func TestWatchOverBrokenConnections(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	handler, err := api.New(api.Config{Client: w.Client, Links: w.Links, Tokens: map[api.TokenHash]string{api.HashToken("token"): "default"}})
	if err != nil {
		t.Fatal(err)
	}
	var connections atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") {
			connections.Add(1)
			rw = &cut{rw, 100 + rand.IntN(2000)}
		}
		handler.ServeHTTP(rw, r)
	}))
	t.Cleanup(srv.Close)
	jobs, err := producer.New(srv.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { jobs.Close() })
	j, err := jobs.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1"})
	if err != nil {
		t.Fatal(err)
	}
	running := w.Start(t, j.ID)
	watching := watch(t.Context(), t, jobs, j.ID, "")
	const n = 500
	var want []string
	var worker sync.WaitGroup
	defer worker.Wait()
	worker.Go(func() {
		batch := []record.Event{runningEvent(t, 1)}
		next := 1
		for i := range n {
			batch = append(batch, stdout(int64(4*i), fmt.Sprintf("%03d\n", i)))
			if i%7 == 0 || i == n-1 {
				if i == n-1 {
					batch = append(batch, record.Event{Type: record.EventEnd})
				}
				if err := w.Worker.Publish(t.Context(), running, next, batch); err != nil {
					t.Error(err)
				}
				next += len(batch)
				batch = nil
			}
		}
		w.End(t, running, nil, func(r *job.Result) { r.Stdout = "short" }) // it has to fit between two breaks
	})
	want = append(want, "status running 1")
	for i := range n {
		want = append(want, fmt.Sprintf("stdout %d %q", 4*i, fmt.Sprintf("%03d\n", i)))
	}
	want = append(want, "status succeeded 1", "result succeeded")
	var got []string
	for e, ok := watching.next(); ok; e, ok = watching.next() {
		got = append(got, short(e))
	}
	if watching.err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %d events, want %d:\n%s", watching.err, len(got), len(want), strings.Join(got, "\n"))
	}
	if c := connections.Load(); c < 10 {
		t.Errorf("got %d connections: what was broken?", c)
	}
	t.Logf("%d events over %d connections", len(got), connections.Load())
}

// TestWatchOfAJobThatEndsMeanwhile: the connection breaks before an event with an ID comes,
// and the next one is to a job that has ended, whose events begin with the status told before.
func TestWatchOfAJobThatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	id := job.NewID("default")
	result, err := json.Marshal(producer.Job{Summary: job.Summary{ID: id, Status: job.Succeeded}, Result: &job.Result{ID: id, Status: job.Succeeded}})
	if err != nil {
		t.Fatal(err)
	}
	var connections atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if connections.Add(1) == 1 {
			fmt.Fprint(w, "event: status\ndata: {\"status\":\"running\",\"attempt\":1}\n\n")
			return
		}
		fmt.Fprint(w, "id: 1-1\nevent: status\ndata: {\"status\":\"running\",\"attempt\":1}\n\n")
		fmt.Fprintf(w, "event: status\ndata: {\"status\":\"succeeded\",\"attempt\":1}\n\nid: end\nevent: result\ndata: %s\n\n", result)
	}))
	defer srv.Close()
	client, err := producer.New(srv.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var got []string
	for e, err := range client.Watch(t.Context(), id, "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, short(e))
	}
	if want := []string{"status running 1", "status succeeded 1", "result succeeded"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
