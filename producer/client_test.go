package producer_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// counting is a transport of the caller's own.
type counting struct {
	n      atomic.Int32
	closed atomic.Bool
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return http.DefaultTransport.RoundTrip(r)
}

func (c *counting) CloseIdleConnections() { c.closed.Store(true) }

// The caller's own client is asked with, follows to the bucket without the token, takes
// uploads there, and stays the caller's.
func TestWithHTTPClient(t *testing.T) {
	t.Parallel()
	const id = "default-aaaaaaaaaaaaaaaaaaaaaaaaaa"
	bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.Header.Get("Referer") != "" {
			t.Errorf("the bucket was sent %v", r.Header)
		}
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, "hello")
		}
	}))
	t.Cleanup(bucket.Close)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token" {
			t.Errorf("%s: the API was sent %q", r.URL, r.Header.Get("Authorization"))
		}
		if r.Method == http.MethodPost {
			_ = json.NewEncoder(w).Encode(producer.Upload{URL: bucket.URL + "/up"})
			return
		}
		http.Redirect(w, r, bucket.URL+"/file", http.StatusFound)
	}))
	t.Cleanup(api.Close)
	own := new(counting)
	lent := &http.Client{Transport: own, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	jobs, err := producer.New(api.URL, "token", producer.WithHTTPClient(lent))
	if err != nil {
		t.Fatal(err)
	}
	d, err := jobs.Open(t.Context(), id, producer.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(d)
	d.Close()
	if err != nil || string(b) != "hello" || d.Size != 5 {
		t.Errorf("got %q of %d bytes, %v, want hello", b, d.Size, err)
	}
	if _, err := producer.UploadFile(t.Context(), jobs, "in.txt", strings.NewReader("in")); err != nil {
		t.Error(err)
	}
	if n := own.n.Load(); n != 4 {
		t.Errorf("the transport made %d requests, want 4", n)
	}
	if err := jobs.Close(); err != nil || own.closed.Load() {
		t.Errorf("close: %v; the caller's connections were closed: %v", err, own.closed.Load())
	}
}

// A job that takes longer than the API holds an answer is waited for.
func TestRun(t *testing.T) {
	t.Parallel()
	const id = "default-aaaaaaaaaaaaaaaaaaaaaaaaaa"
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Prefer"))
		var answer any = job.Summary{ID: id, Status: job.Running}
		if len(asked) == 3 {
			answer = job.Result{ID: id, Status: job.Succeeded, Stdout: "hello"}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(api.Close)
	jobs, err := producer.New(api.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { jobs.Close() })
	j, err := jobs.Run(t.Context(), job.Spec{Runtime: "python", Source: "1"})
	if err != nil || !j.Ended() || j.Result.Stdout != "hello" {
		t.Errorf("got %+v, %v, want the result", j, err)
	}
	want := "POST /v1/jobs wait=30, GET /v1/jobs/" + id + " wait=30, GET /v1/jobs/" + id + " wait=30"
	if got := strings.Join(asked, ", "); got != want {
		t.Errorf("the API was asked %s, want %s", got, want)
	}
}
