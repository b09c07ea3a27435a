package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// apiOf is what an api of the world is told.
func apiOf(tb testing.TB, w *producertest.Env) config.API {
	tb.Helper()
	key := make([]byte, 32)
	rand.Read(key)
	addr := gbtest.Addr(tb)
	return config.API{
		Redis: record.Config{URL: w.Redis.URL()}, S3: w.S3Spec, Addr: addr, PublicURL: "http://" + addr, Token: rand.Text(),
		WebhookKey: base64.StdEncoding.EncodeToString(key), CapabilityKeys: []artifacts.TokenKey{{ID: "k", Secret: key}},
		Poll: time.Second, Log: "text",
	}
}

// status polls until url answers want.
func (r *running) answers(path string, want int) {
	r.t.Helper()
	got := 0
	for deadline := time.Now().Add(gbtest.Patience); got != want; time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-r.ended:
			r.t.Fatalf("it ended: %v", err)
		default:
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s answers %d after %s, want %d", path, got, gbtest.Patience, want)
		}
		req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.url+path, http.NoBody)
		if err != nil {
			r.t.Fatal(err)
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			got = res.StatusCode
			res.Body.Close()
		}
		http.DefaultClient.CloseIdleConnections() // goleak watches
	}
}

// running is an api that was started.
type running struct {
	t     *testing.T
	url   string
	said  gbtest.Buffer
	stop  context.CancelFunc
	ended chan error
}

func serve(t *testing.T, c config.API) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{t: t, url: c.PublicURL, stop: stop, ended: make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.ended <- (&app{stderr: &r.said, getenv: func(string) string { return "off" }}).serve(ctx, c) // no memory limit for the test
	}()
	t.Cleanup(func() { stop(); <-done })
	return r
}

// TestAPIWaitsForRedis: an api that starts while Redis is away says that it is not ready,
// and serves once Redis is there; told to end as it waits, it has not failed.
func TestAPIWaitsForRedis(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Redis.Kill()
	c := apiOf(t, w)
	c.MetricsAddr = gbtest.Addr(t)
	for _, end := range []bool{true, false} {
		r := serve(t, c)
		r.answers("/readyz", http.StatusServiceUnavailable)
		r.answers("/healthz", http.StatusOK)
		if text := scrape(t, "http://"+c.MetricsAddr+"/metrics"); !strings.Contains(text, "glovebox_redis_up 0\n") {
			t.Errorf("as it waits its metrics are %s", text)
		}
		if !end {
			w.Redis.Restart()
			r.answers("/readyz", http.StatusOK)
			gbtest.Eventually(t, "its metrics say that Redis is there", func() bool {
				return strings.Contains(scrape(t, "http://"+c.MetricsAddr+"/metrics"), "glovebox_redis_up 1\n")
			})
		}
		r.stop()
		select {
		case err := <-r.ended:
			if err != nil {
				t.Errorf("told to end: got %v", err)
			}
		case <-time.After(gbtest.Patience):
			t.Error("it does not end")
		}
	}
}

// TestAPIEndsForWrongSettings: what only a changed setting mends is not waited for.
func TestAPIEndsForWrongSettings(t *testing.T) {
	t.Parallel()
	w, cluster := producertest.New(t, ""), gbtest.StartRedisCluster(t)
	for name, change := range map[string]func(*config.API){
		"a wrong password": func(c *config.API) { c.Redis.URL = "redis://:wrong@" + w.Redis.Addr + "/0" },
		"a Redis Cluster":  func(c *config.API) { c.Redis.URL = cluster.Nodes[1].API() },
		"no such bucket":   func(c *config.API) { c.S3.Bucket = "another" },
		"a wrong key":      func(c *config.API) { c.S3.SecretKey = "wrong" },
	} {
		c := apiOf(t, w)
		change(&c)
		r := serve(t, c)
		select {
		case err := <-r.ended:
			if !errors.Is(err, await.ErrSettings) {
				t.Errorf("%s: got %v", name, err)
			}
		case <-time.After(gbtest.Patience):
			t.Errorf("%s: it does not end", name)
		}
	}
}
