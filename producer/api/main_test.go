package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/api"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	token      = "gb_0123456789abcdef"
	otherToken = "gb_fedcba9876543210"
	adminToken = "admin_0123456789abcdef"
)

// world is an API at work.
type world struct {
	*producertest.Env
	api *api.API
	srv *httptest.Server
	// watches is where watches go, if it is another.
	watches *httptest.Server
	log     *gbtest.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, func(*apiConfig) {})
}

type apiConfig = api.Config

func newWorldWith(t *testing.T, change func(*apiConfig)) *world {
	t.Helper()
	return newWorldOn(t, producertest.New, change)
}

// newHangingWorld is for tests that let Redis hang.
func newHangingWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, producertest.NewHanging, func(*apiConfig) {})
}

func newWorldOn(t *testing.T, start func(tb testing.TB, base string) *producertest.Env, change func(*apiConfig)) *world {
	t.Helper()
	// Links lead to the server, which starts before it has its handler.
	srv := httptest.NewUnstartedServer(nil)
	w := &world{Env: start(t, "http://"+srv.Listener.Addr().String()), srv: srv, log: &gbtest.Buffer{}}
	var err error
	admin := api.HashToken(adminToken)
	config := api.Config{
		AdminToken: &admin,
		Client:     w.Client, Links: w.Links, Log: slog.New(slog.NewJSONHandler(w.log, nil)), Version: "test",
		Tokens: map[api.TokenHash]string{api.HashToken(token): "default", api.HashToken(otherToken): "other"},
	}
	change(&config)
	w.api, err = api.New(config)
	if err != nil {
		t.Fatal(err)
	}
	srv.Config.Handler = w.api
	srv.Start()
	t.Cleanup(srv.Close)
	return w
}

// answer is what came back, its body read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request with the tenant's token; headers, as "Name: value", replace it.
func (w *world) do(t *testing.T, method, path string, body io.Reader, headers ...string) answer {
	t.Helper()
	a, err := w.try(t.Context(), method, path, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// largeTries is how often a large body is sent that is refused before all of it has come: the server ends the connection
// soon after it has answered, and a client that is late finds that in place of the answer.
const largeTries = 5

// insist sends up to so many times, until the connection is not broken off.
func insist[A any](tries int, send func() (A, error)) (a A, err error) {
	for range tries {
		if a, err = send(); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			break
		}
	}
	return a, err
}

// try sends a request, a large one again where the connection broke off.
func (w *world) try(ctx context.Context, method, path string, body io.Reader, headers ...string) (answer, error) {
	again := func() io.Reader { return body } // a reader of its own for each request: the last one may still be read
	tries := 1
	switch large := body.(type) {
	case *strings.Reader:
		if whole := *large; whole.Len() > 1<<20 {
			again, tries = func() io.Reader { r := whole; return &r }, largeTries
		}
	case *io.SectionReader:
		if large.Size() > 1<<20 {
			again, tries = func() io.Reader { return io.NewSectionReader(large, 0, large.Size()) }, largeTries
		}
	}
	return insist(tries, func() (answer, error) { return w.tryOnce(ctx, method, path, again(), headers...) })
}

func (w *world) tryOnce(ctx context.Context, method, path string, body io.Reader, headers ...string) (answer, error) {
	url := path
	if strings.HasPrefix(path, "/") {
		url = w.srv.URL + path
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
		if value == "" {
			req.Header.Del(name)
		}
	}
	res, err := w.srv.Client().Transport.RoundTrip(req) // which follows no redirect
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, b}, err
}

func (w *world) submit(t *testing.T, spec string, headers ...string) answer {
	t.Helper()
	return w.do(t, http.MethodPost, "/v1/jobs", strings.NewReader(spec), headers...)
}

// accepted submits a job that is fine and returns its id.
func (w *world) accepted(t *testing.T) string {
	t.Helper()
	a := w.submit(t, `{"runtime":"python","source":"print('hello')"}`)
	var r job.Summary
	if err := json.Unmarshal(a.body, &r); err != nil || a.status != http.StatusAccepted {
		t.Fatalf("submit: got %d %s, %v", a.status, a.body, err)
	}
	return r.ID
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; go test -update writes it):\n%s", path, diff)
	}
}

func indented(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		t.Fatalf("%v in %.300s", err, b)
	}
	return append(bytes.TrimSpace(out.Bytes()), '\n')
}
