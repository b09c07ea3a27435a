package artifacts_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/glovebox-run/glovebox/artifacts"
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
