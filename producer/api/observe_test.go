package api_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/producer/api"
)

// TestObserve: what is told of a request names its route, never what a client wrote.
func TestObserve(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var routes []string
	w := newWorld(t)
	var err error
	w.api, err = api.New(api.Config{
		Client: w.Client, Links: w.Links, Tokens: map[api.TokenHash]string{api.HashToken(token): "default"},
		Observe: func(route string, status int, took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			if took <= 0 || status < 200 {
				t.Errorf("%s: got status %d after %s", route, status, took)
			}
			routes = append(routes, route+" "+http.StatusText(status))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.srv.Config.Handler = w.api
	w.do(t, "GET", "/v1/jobs/default-aaaaaaaaaaaaaaaaaaaaaaaaaa", http.NoBody)
	w.do(t, "GET", "/v1/jobs/x/artifacts/a/b", http.NoBody)
	w.do(t, "GET", "/v1/no-such", http.NoBody)
	w.do(t, "PUT", "/v1/jobs/x", http.NoBody)
	w.do(t, "POST", "/v1/jobs", strings.NewReader("{}"), "Authorization: ")
	w.srv.Close() // every request has ended
	want := []string{
		"GET /v1/jobs/{id} Not Found", "GET /v1/jobs/{id}/artifacts/{name...} Not Found", " Not Found", " Method Not Allowed",
		"POST /v1/jobs Unauthorized",
	}
	if !slices.Equal(routes, want) {
		t.Errorf("got %q, want %q", routes, want)
	}
}
