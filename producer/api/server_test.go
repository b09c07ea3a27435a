package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/api"
)

// goleak, in TestMain, sees what clients who leave would leave behind.
func TestClientsLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	id := w.accepted(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if _, err := w.try(ctx, "GET", "/v1/jobs/"+id, http.NoBody, "Prefer: wait=60"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want DeadlineExceeded", err)
			}
		})
	}
	all.Wait()
	if strings.Contains(w.log.String(), `"level":"ERROR"`) {
		t.Errorf("clients who leave are not an error: %s", w.log)
	}
}

func TestServeEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	id := w.accepted(t)
	a, err := api.New(api.Config{Client: w.Client, Links: w.Links, Tokens: map[api.TokenHash]string{api.HashToken(token): "default"}})
	if err != nil {
		t.Fatal(err)
	}
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	var begun atomic.Int32
	go func() {
		served <- a.ServeWith(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			begun.Add(1)
			a.ServeHTTP(w, r)
		}))
	}()
	jobs, err := producer.New("http://"+l.Addr().String(), token)
	if err != nil {
		t.Fatal(err)
	}
	defer jobs.Close()
	if _, err := jobs.Get(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	waited := make(chan answer, 1)
	go func() {
		a, err := w.try(t.Context(), "GET", "http://"+l.Addr().String()+"/v1/jobs/"+id, http.NoBody, "Prefer: wait=60")
		if err != nil {
			t.Errorf("wait: %v", err)
		}
		waited <- a
	}()
	gbtest.Eventually(t, "its handler has begun", func() bool { return begun.Load() == 2 }) // where it doesn't wait yet, the answer is the same
	start := time.Now()
	cancel()
	if err := <-served; err != nil || time.Since(start) > gbtest.AtOnce {
		t.Errorf("serve: got %v after %s, want nil at once", err, time.Since(start))
	}
	if a := <-waited; a.status != 202 {
		t.Errorf("the waiter got %d %s, want 202", a.status, a.body)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ready := func() int { return w.do(t, "GET", "/readyz", http.NoBody, "Authorization: ").status }
	if a := w.do(t, "GET", "/healthz", http.NoBody, "Authorization: "); a.status != 200 || string(a.body) != "{\"status\":\"ok\"}\n" {
		t.Errorf("got %d %s, want 200", a.status, a.body)
	}
	if got := ready(); got != 200 {
		t.Errorf("got %d, want 200; log: %s", got, w.log)
	}
	w.S3.Kill()
	gbtest.Eventually(t, "it is not ready without S3", func() bool { return ready() == 503 }) // an answer holds for a second
	w.S3.Restart()
	gbtest.Eventually(t, "it is ready with S3", func() bool { return ready() == 200 })
	w.Redis.Kill()
	gbtest.Eventually(t, "it is not ready without Redis", func() bool { return ready() == 503 })
	a := w.do(t, "GET", "/readyz", http.NoBody)
	if a.status != 503 || strings.Contains(string(a.body), w.Redis.Addr) {
		t.Errorf("without Redis: got %d %s, want 503 that says no address", a.status, a.body)
	}
	if a := w.do(t, "GET", "/v1/jobs/default-aaaaaaaaaaaaaaaaaaaaaaaaaa", http.NoBody); a.status != 503 || a.header.Get("Retry-After") == "" || strings.Contains(string(a.body), w.Redis.Addr) {
		t.Errorf("get without Redis: got %d %v %s, want 503", a.status, a.header, a.body)
	}
	if a := w.do(t, "GET", "/healthz", http.NoBody); a.status != 200 {
		t.Errorf("got %d, want 200: the process answers", a.status)
	}
	w.Redis.Restart()
	gbtest.Eventually(t, "it is ready again", func() bool { return ready() == 200 })
}

func TestOpenAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.do(t, "GET", "/openapi.json", http.NoBody, "Authorization: ")
	if a.status != 200 || a.header.Get("Content-Type") != "application/openapi+json" {
		t.Errorf("got %d %v", a.status, a.header)
	}
	golden(t, "openapi.json", append(a.body, '\n'))
	var doc struct {
		OpenAPI string
		Paths   map[string]any
	}
	if err := json.Unmarshal(a.body, &doc); err != nil || doc.OpenAPI != "3.1.0" || len(doc.Paths) != 83 {
		t.Errorf("got %s with %d paths, %v", doc.OpenAPI, len(doc.Paths), err)
	}
	judge := exec.CommandContext(t.Context(), "node", "validate.js")
	judge.Dir, judge.Stdin = gbtest.NPM(t, "testdata/npm"), bytes.NewReader(a.body)
	if said, err := judge.CombinedOutput(); err != nil || string(said) != "valid 3.1\n" {
		t.Errorf("the specification's schema says: %s, %v", said, err)
	}
	for _, gone := range []string{"/docs", "/openapi.yaml", "/schemas/Spec.json", "/metrics"} {
		if a := w.do(t, "GET", gone, http.NoBody); a.status != 404 {
			t.Errorf("%s: got %d, want 404", gone, a.status)
		}
	}
	if a := w.do(t, "GET", "/v1/runtimes", http.NoBody); a.status != 200 || string(a.body) != "{\"runtimes\":[],\"images\":[]}\n" {
		t.Errorf("got %d %s, want an empty list", a.status, a.body)
	}
	w.Runtimes(t)
	w.Images(t)
	golden(t, "runtimes.json", indented(t, w.do(t, "GET", "/v1/runtimes", http.NoBody).body))
}

// TestOpenAPIGone: what takes an idempotency key answers 410 where that of something purged is given, and the document says so.
func TestOpenAPIGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name string }
			Responses  map[string]any
		}
	}
	w.expecting(t, "GET", "/openapi.json", "", http.StatusOK, &doc)
	keyed := 0
	for path, operations := range doc.Paths {
		for method, o := range operations {
			for _, p := range o.Parameters {
				if p.Name != "Idempotency-Key" {
					continue
				}
				keyed++
				if o.Responses["410"] == nil {
					t.Errorf("%s %s takes a key and has no 410", method, path)
				}
			}
		}
	}
	if keyed < 10 {
		t.Errorf("got %d operations that take a key, want those of jobs, batches, runs, sessions, templates, schedules and problems", keyed)
	}
}
