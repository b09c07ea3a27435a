package artifacts_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/artifacts/artifactstest"
	"github.com/glovebox-run/glovebox/internal/gbtest"
)

func TestUploadLeavesNothing(t *testing.T) {
	t.Parallel()
	server := gbtest.S3(t)
	store := open(t, server, nil)
	broken := errors.New("sandbox is gone")
	for _, size := range []int64{0, 1000, 2*part + 5} {
		for name, test := range map[string]struct {
			r     io.Reader
			limit int64
			want  error
		}{
			"reader fails":      {io.MultiReader(newStream(size), failing{broken}), 1 << 30, broken},
			"stream breaks off": {io.MultiReader(newStream(size), failing{io.ErrUnexpectedEOF}), 1 << 30, io.ErrUnexpectedEOF},
			"past the limit":    {newStream(size + 2), size + 1, artifacts.ErrTooLarge},
		} {
			_, err := store.Upload(t.Context(), keys(t, "j1").Artifact(1, "f"), test.r, artifacts.Options{Limit: test.limit})
			if !errors.Is(err, test.want) {
				t.Errorf("%s after %d bytes: got %v, want %v", name, size, err, test.want)
			}
			wantNothing(t, store)
		}
	}
	for _, limit := range []int64{0, -1, 10_001 * part} {
		if _, err := store.Upload(t.Context(), "tenants/k", newStream(0), artifacts.Options{Limit: limit}); err == nil {
			t.Errorf("limit %d: got nil, want an error", limit)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestUploadCancelWhileS3IsSlow(t *testing.T) {
	t.Parallel()
	server := gbtest.S3(t)
	proxy := artifactstest.Throttle(t, server.Endpoint, 0)
	store := open(t, server, func(c *artifacts.Config) { c.Endpoint = proxy.URL })
	proxy.SetRate(1 << 20)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := store.Upload(ctx, keys(t, "j1").Artifact(1, "f"), newStream(300<<20), artifacts.Options{Limit: 1 << 30})
		done <- err
	}()
	for proxy.Passed() < 1<<20 { // it is in the middle of its first parts
		time.Sleep(10 * time.Millisecond)
	}
	proxy.SetRate(64 << 10) // the parts under way would take minutes
	why := errors.New("canceled by its tenant")
	start := time.Now()
	cancel(why)
	err := <-done
	took := time.Since(start)
	t.Logf("canceled in %s", took.Round(time.Millisecond))
	if !errors.Is(err, why) || took > gbtest.AtOnce {
		t.Errorf("cancel: got %v after %s, want %v at once", err, took, why)
	}
	proxy.SetRate(0)
	wantNothing(t, store)
}

// A reader that blocks is closed, so that neither a cancel nor a dead S3 waits for it.
func TestUploadClosesBlockedReaderOnCancel(t *testing.T) {
	t.Parallel()
	store := open(t, gbtest.S3(t), nil)
	for _, size := range []int64{0, part + 1} { // before and after a multipart upload is begun
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, w := io.Pipe()
		written := make(chan error, 1)
		go func() {
			_, err := io.Copy(w, newStream(size))
			written <- err
			cancel() // more doesn't come, nor an end
		}()
		_, err := store.Upload(ctx, "tenants/k", r, artifacts.Options{Limit: 1 << 30})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after %d bytes: got %v, want context.Canceled", size, err)
		}
		if err := <-written; err != nil {
			t.Errorf("write %d bytes: %v", size, err)
		}
		wantNothing(t, store)
	}
}

func TestUploadClosesBlockedReaderWhenS3Fails(t *testing.T) {
	t.Parallel()
	server := gbtest.S3(t)
	proxy := artifactstest.Throttle(t, server.Endpoint, 0)
	store := open(t, server, func(c *artifacts.Config) { c.Endpoint, c.MaxAttempts = proxy.URL, 1 })
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, newStream(part)) // one whole part, then nothing, and no end
		written <- err
	}()
	proxy.Reset(1<<20, 100)
	_, err := store.Upload(t.Context(), "tenants/k", r, artifacts.Options{Limit: 1 << 30})
	if err == nil || !strings.Contains(err.Error(), "send part 1") {
		t.Errorf("got %v, want an error that names part 1", err)
	}
	if err := <-written; err != nil {
		t.Errorf("write: %v", err)
	}
	proxy.Reset(0, 0)
	wantNothing(t, store)
}

func TestUploadSurvivesFaults(t *testing.T) {
	t.Parallel()
	server := gbtest.S3(t)

	upload := func(t *testing.T, store *artifacts.Store, size int64) {
		t.Helper()
		src := newStream(size)
		key := keys(t, "j1").Artifact(1, fmt.Sprintf("%s %d", t.Name(), size))
		o, err := store.Upload(t.Context(), key, src, artifacts.Options{Limit: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		url, err := store.Presign(t.Context(), key, "f", o.MediaType, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		_, _, body := read(t, url)
		if got := fmt.Sprintf("%x", sha256.Sum256(body)); got != src.sum() {
			t.Errorf("read back: got %d bytes %s, want %d %s", len(body), got, size, src.sum())
		}
	}
	t.Run("connections reset in a body", func(t *testing.T) {
		t.Parallel()
		proxy := artifactstest.Throttle(t, server.Endpoint, 0)
		store := open(t, server, func(c *artifacts.Config) { c.Endpoint = proxy.URL })
		proxy.Reset(2<<20, 2)
		upload(t, store, 3*part)
		proxy.Reset(100_000, 2)
		upload(t, store, 200_000)
	})
	t.Run("503", func(t *testing.T) {
		t.Parallel()
		var failures atomic.Int64
		forward := server.Gateway(t)
		unwell := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if failures.Add(-1) >= 0 {
				http.Error(w, "<Error><Code>SlowDown</Code></Error>", http.StatusServiceUnavailable)
				return
			}
			forward.ServeHTTP(w, r)
		}))
		defer unwell.Close()
		store := open(t, server, func(c *artifacts.Config) { c.Endpoint = unwell.URL })
		failures.Store(2)
		upload(t, store, 2*part)
		failures.Store(1) // each costs a pause
		upload(t, store, 10)
	})
	t.Run("the answer to the last request is lost", func(t *testing.T) {
		t.Parallel()
		var lost atomic.Int64
		forward := server.Gateway(t)
		forward.ModifyResponse = func(r *http.Response) error {
			if r.Request.Method != http.MethodPost || !r.Request.URL.Query().Has("uploadId") {
				return nil
			}
			if lost.Add(1) == 1 {
				panic(http.ErrAbortHandler)
			}
			// So others answer; this server knows that it has done it.
			r.StatusCode, r.Status = http.StatusNotFound, "404 Not Found"
			r.Body.Close()
			body := `<?xml version="1.0"?><Error><Code>NoSuchUpload</Code><Message>There is none.</Message></Error>`
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
			r.Header.Set("Content-Length", strconv.Itoa(len(body)))
			return nil
		}
		forgetful := httptest.NewServer(forward)
		defer forgetful.Close()
		store := open(t, server, func(c *artifacts.Config) { c.Endpoint = forgetful.URL })
		upload(t, store, 2*part)
		if got := lost.Load(); got != 2 {
			t.Errorf("requests to complete: got %d, want 2", got)
		}
	})
	t.Run("a server that hangs", func(t *testing.T) {
		t.Parallel()
		proxy := artifactstest.Throttle(t, server.Endpoint, 0)
		store := open(t, server, func(c *artifacts.Config) {
			c.Endpoint, c.MaxAttempts, c.StallTimeout = proxy.URL, 1, 300*time.Millisecond
		})
		proxy.SetRate(1)
		start := time.Now()
		_, err := store.Upload(t.Context(), "tenants/k", newStream(200_000), artifacts.Options{Limit: 1 << 20})
		if took := time.Since(start); err == nil || took > gbtest.AtOnce {
			t.Errorf("got %v after %s, want an error soon", err, took)
		}
	})
}

// TestPartStoredLate: what a busy server stores of an upload that was canceled is removed, though nothing lists it.
func TestPartStoredLate(t *testing.T) {
	t.Parallel()
	server := gbtest.S3(t)
	proxy := artifactstest.Throttle(t, server.Endpoint, 0)
	store := open(t, server, func(c *artifacts.Config) { c.Endpoint = proxy.URL })
	proxy.SetRate(8 << 20)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := store.Upload(ctx, "tenants/k", newStream(100<<20), artifacts.Options{Limit: 1 << 30})
		ended <- err
	}()
	var parts []string
	gbtest.Eventually(t, "a part is stored", func() bool { // so the store knows the upload's id
		var err error
		if parts, err = filepath.Glob(filepath.Join(server.Dir, "*/.sgwtmp/multipart/*/*/1")); err != nil {
			t.Fatal(err)
		}
		return len(parts) == 1
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	upload := filepath.Dir(parts[0])
	if err := errors.Join(os.MkdirAll(upload, 0o750), os.WriteFile(parts[0], []byte("part"), 0o600)); err != nil {
		t.Fatal(err)
	}
	gbtest.Eventually(t, "the part is gone", func() bool {
		_, err := os.Stat(upload)
		return errors.Is(err, os.ErrNotExist)
	})
}
