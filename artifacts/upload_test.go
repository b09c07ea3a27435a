package artifacts_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/artifacts/artifactstest"
	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// client is S3 without our code, to check on it.
func client(server *gbtest.S3Server) *s3.Client {
	return s3.New(s3.Options{
		Region: server.Region, BaseEndpoint: &server.Endpoint, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, ""),
		HTTPClient:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	})
}

func beginUpload(tb testing.TB, server *gbtest.S3Server, key string) {
	tb.Helper()
	c := client(server)
	out, err := c.CreateMultipartUpload(tb.Context(), &s3.CreateMultipartUploadInput{Bucket: aws.String("glovebox"), Key: &key})
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := c.UploadPart(tb.Context(), &s3.UploadPartInput{
		Bucket: aws.String("glovebox"), Key: &key, UploadId: out.UploadId, PartNumber: aws.Int32(1), Body: bytes.NewReader([]byte("x")),
	}); err != nil {
		tb.Fatal(err)
	}
}

// stream makes size bytes that can't be sought and differ everywhere, and remembers
// their hash.
type stream struct {
	left int64
	rng  *rand.ChaCha8
	hash hash.Hash
}

func newStream(size int64) *stream {
	return &stream{left: size, rng: rand.NewChaCha8([32]byte{1}), hash: sha256.New()}
}

func (s *stream) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.rng.Read(p[:min(int64(len(p)), s.left, 100_000)]) // odd pieces, as from a network
	s.left -= int64(n)
	s.hash.Write(p[:n])
	return n, err
}

func (s *stream) sum() string { return hex.EncodeToString(s.hash.Sum(nil)) }

func TestUploadSizes(t *testing.T) {
	t.Parallel()
	server := gbtest.S3(t)
	store := open(t, server, nil)
	const head = 256 << 10
	for _, size := range []int64{0, 1, head - 1, head, head + 1, part - 1, part, part + 1, 3*part + 7} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			key := keys(t, "j1").Artifact(1, fmt.Sprintf("f%d", size))
			src := newStream(size)
			// Limit is the size itself: a file that just fits must fit.
			o, err := store.Upload(t.Context(), key, src, artifacts.Options{Limit: max(size, 1), Name: "f"})
			if err != nil {
				t.Fatal(err)
			}
			if o.Size != size || o.SHA256 != src.sum() {
				t.Errorf("object: got %d bytes %s, want %d %s", o.Size, o.SHA256, size, src.sum())
			}
			body, _, err := store.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			defer body.Close()
			got := sha256.New()
			if n, err := io.Copy(got, body); err != nil || n != size || hex.EncodeToString(got.Sum(nil)) != o.SHA256 {
				t.Errorf("read back: got %d bytes, %v, want %d of the same hash", n, err, size)
			}
		})
	}
}

// A large upload must not need more memory than a small one.
func TestUploadMemory(t *testing.T) {
	server := gbtest.S3(t)
	store := open(t, server, nil)
	size := int64(300 << 20)
	if testing.Short() {
		size = 100 << 20
	}
	peak := watchHeap(t)
	src := newStream(size)
	start := time.Now()
	o, err := store.Upload(t.Context(), keys(t, "j1").Artifact(1, "big"), src, artifacts.Options{Limit: size, Name: "big"})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	if o.Size != size || o.SHA256 != src.sum() {
		t.Errorf("got %d bytes %s, want %d %s", o.Size, o.SHA256, size, src.sum())
	}
	got := peak()
	t.Logf("%d MiB in %s, %d MiB/s, %d MiB of heap at most", size>>20, took.Round(time.Millisecond), int(float64(size>>20)/took.Seconds()), got>>20)
	if want := uint64(32 << 20); got > want {
		t.Errorf("heap at most: got %d bytes, want no more than %d", got, want)
	}
}

// watchHeap samples how far the heap in use grows until it is called.
func watchHeap(tb testing.TB) (peak func() uint64) {
	tb.Helper()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	base, most := m.HeapInuse, uint64(0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(5 * time.Millisecond) // not time.After: what it allocates would be measured
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse-min(base, m.HeapInuse))
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	return func() uint64 { close(stop); <-stopped; return most }
}

func TestUploadsShareMemory(t *testing.T) {
	server := gbtest.S3(t)
	store := open(t, server, func(c *artifacts.Config) { c.MemoryBytes = 3 * part })
	peak := watchHeap(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			src := newStream(4*part + int64(i))
			o, err := store.Upload(t.Context(), keys(t, "j1").Artifact(1, fmt.Sprint(i)), src, artifacts.Options{Limit: 1 << 30})
			if err != nil || o.SHA256 != src.sum() {
				t.Errorf("upload %d: got %s, %v, want %s", i, o.SHA256, err, src.sum())
			}
		})
	}
	wg.Wait()
	if got, want := peak(), uint64(40<<20); got > want { // 3 parts, 8 heads, the rest
		t.Errorf("heap of 8 uploads at once: got %d bytes, want no more than %d", got, want)
	}
}

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
		target, err := url.Parse(server.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{DisableKeepAlives: true}
		forward := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is signed
		}}
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
		target, err := url.Parse(server.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		var lost atomic.Int64
		forward := &httputil.ReverseProxy{
			Transport: &http.Transport{DisableKeepAlives: true},
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(target)
				r.Out.Host = r.In.Host
			},
			ModifyResponse: func(r *http.Response) error {
				if r.Request.Method == http.MethodPost && r.Request.URL.Query().Has("uploadId") && lost.Add(1) == 1 {
					panic(http.ErrAbortHandler)
				}
				return nil
			},
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

func BenchmarkUpload(b *testing.B) {
	server := gbtest.S3(b)
	store := open(b, server, nil)
	plain := client(server)
	for _, size := range []int64{10 << 10, 64 << 20} {
		data, err := io.ReadAll(newStream(size))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("Upload/%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				// Only a Reader, as a sandbox's stream is.
				if _, err := store.Upload(b.Context(), "tenants/up", io.MultiReader(bytes.NewReader(data)), artifacts.Options{Limit: size}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("PutObject/%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := plain.PutObject(b.Context(), &s3.PutObjectInput{
					Bucket: aws.String("glovebox"), Key: aws.String("tenants/put"), Body: bytes.NewReader(data),
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
