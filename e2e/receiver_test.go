package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/webhook"
)

// receiver is a webhook endpoint that verifies what it gets.
type receiver struct {
	url string

	mu      sync.Mutex
	secrets []webhook.Verifier
	fails   int
	got     []message
	calls   int
	came    chan struct{}
}

type message struct {
	ID          string
	Result      job.Result // of a job, or
	Batch       job.Batch
	Run         job.Run
	Session     job.Session
	At          time.Time
	Traceparent string
}

func newReceiver(tb testing.TB, secret webhook.Secret, fails int) *receiver {
	tb.Helper()
	r := &receiver{secrets: []webhook.Verifier{secret}, fails: fails, came: make(chan struct{}, 1000)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
		if err != nil {
			tb.Errorf("receive: %v", err)
		}
		r.mu.Lock()
		secrets := r.secrets
		r.mu.Unlock()
		if err := webhook.Verify(req.Header, body, secrets, 5*time.Minute, time.Now()); err != nil {
			tb.Errorf("a message came that does not verify: %v", err)
		}
		var event struct {
			Type string
			Data json.RawMessage
		}
		m := message{ID: req.Header.Get("webhook-id"), Traceparent: req.Header.Get("Traceparent"), At: time.Now()}
		err = json.Unmarshal(body, &event)
		switch {
		case err == nil && event.Type == job.EventCompleted:
			err = json.Unmarshal(event.Data, &m.Result)
		case err == nil && event.Type == job.EventBatchCompleted:
			err = json.Unmarshal(event.Data, &m.Batch)
		case err == nil && event.Type == job.EventPipelineCompleted:
			err = json.Unmarshal(event.Data, &m.Run)
		case err == nil && event.Type == job.EventSessionEnded:
			err = json.Unmarshal(event.Data, &m.Session)
		case err == nil:
			err = errors.New("it is neither of a job nor of a batch nor of a run nor of a session")
		}
		if err != nil {
			tb.Errorf("a message came that can't be read: %v: %s", err, body)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls++
		r.got = append(r.got, m)
		if r.calls <= r.fails {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		select {
		case r.came <- struct{}{}:
		default: // whoever waits has plenty to look at
		}
	}))
	tb.Cleanup(server.Close)
	r.url = server.URL + "/hook"
	return r
}

// trust has the receiver take messages that are signed with an endpoint's secret, too.
func (r *receiver) trust(tb testing.TB, secret string) {
	tb.Helper()
	s, err := webhook.ParseSecret(secret)
	if err != nil {
		tb.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = append(r.secrets, s)
}

// messages waits for n calls, and returns all that came.
func (r *receiver) messages(tb testing.TB, n int, within time.Duration) []message {
	tb.Helper()
	timeout := time.After(within)
	for {
		r.mu.Lock()
		got := slices.Clone(r.got)
		r.mu.Unlock()
		if len(got) >= n {
			return got
		}
		select {
		case <-r.came:
		case <-timeout:
			tb.Fatalf("%d messages came within %s, want %d", len(got), within, n)
		}
	}
}

// of waits for the first message of a job's, and returns all that came.
func (r *receiver) of(tb testing.TB, id string) (all []message) {
	tb.Helper()
	for n := 1; ; n++ {
		all = slices.DeleteFunc(r.messages(tb, n, patience), func(m message) bool { return m.Result.ID != id })
		if len(all) > 0 {
			return all
		}
	}
}
