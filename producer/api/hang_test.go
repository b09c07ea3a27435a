package api_test

import (
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestRedisHangs: Redis takes connections and answers nobody. Each request is answered
// in time all the same, in words that name no host of ours.
func TestRedisHangs(t *testing.T) {
	t.Parallel()
	w := newHangingWorld(t)
	w.Runtimes(t)
	w.Redis.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { w.Redis.Signal(syscall.SIGCONT) })
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPost, "/v1/jobs", `{"runtime":"bash","source":"true"}`},
		{http.MethodPost, "/v1/code-sandbox/execute", `{"language":"bash","code":"true"}`},
		{http.MethodGet, "/v1/jobs/default-aaaaaaaaaaaaaaaaaaaaaaaaaa", ""},
		{http.MethodDelete, "/v1/jobs/default-aaaaaaaaaaaaaaaaaaaaaaaaaa", ""},
		{http.MethodGet, "/v1/jobs/default-aaaaaaaaaaaaaaaaaaaaaaaaaa/stdout", ""},
		{http.MethodGet, "/v1/jobs/default-aaaaaaaaaaaaaaaaaaaaaaaaaa/events", ""},
		{http.MethodGet, "/v1/deliveries?job=default-aaaaaaaaaaaaaaaaaaaaaaaaaa", ""},
		{http.MethodGet, "/v1/runtimes", ""},
		{http.MethodGet, "/readyz", ""},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			t.Parallel()
			var body io.Reader
			if c.body != "" {
				body = strings.NewReader(c.body)
			}
			began := time.Now()
			a := w.do(t, c.method, c.path, body)
			if took := time.Since(began); a.status != http.StatusServiceUnavailable || took > gbtest.AtOnce {
				t.Errorf("got %d after %s", a.status, took)
			}
			if host, _, _ := strings.Cut(w.Redis.Addr, ":"); strings.Contains(string(a.body), host) {
				t.Errorf("the answer names a host of ours: %s", a.body)
			}
		})
	}
}
