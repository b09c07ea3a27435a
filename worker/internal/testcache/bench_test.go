package testcache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"testing"

	"github.com/glovebox-run/glovebox/artifacts"
)

// TestMemoryIsFlat: neither long objects nor many of them are held in memory.
func TestMemoryIsFlat(t *testing.T) { //nolint:paralleltest // it measures the process
	b := openBucket(t)
	const size, objects = 32 << 20, 3
	var keys, sums []string
	for range objects {
		key, sum := b.put(t, "acme", random(size))
		keys, sums = append(keys, key), append(sums, sum)
	}
	c := open(t, b, func(c *Config) { c.MaxBytes = 2 * (size + fileCost) })
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range 4 * objects {
		r, err := c.Open(t.Context(), keys[i%objects], sums[i%objects])
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, r); err != nil || n != size {
			t.Fatalf("got %d bytes, %v", n, err)
		}
		r.Close()
	}
	runtime.ReadMemStats(&now)
	allocated := int64(now.TotalAlloc - before.TotalAlloc)
	t.Logf("%d MiB were read from the cache with %.1f MiB allocated in all", 4*objects*size>>20, float64(allocated)/(1<<20))
	if allocated > size/2 {
		t.Errorf("allocated %d bytes for objects of %d", allocated, size)
	}
}

func BenchmarkHit(b *testing.B) {
	content := random(16 << 20)
	h := sha256.Sum256(content)
	c, err := Open(Config{
		Dir: b.TempDir(), MaxBytes: 64 << 20, MaxObject: 64 << 20, Bucket: oneObject(content), Log: slog.New(slog.DiscardHandler),
		Count: func(Result) {}, Holds: func(int64) {},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := c.Open(b.Context(), "key", hex.EncodeToString(h[:]))
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			r.Close()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// oneObject is a bucket for a benchmark of what comes after it.
type oneObject []byte

func (o oneObject) Get(context.Context, string) (io.ReadCloser, artifacts.Object, error) {
	return io.NopCloser(bytes.NewReader(o)), artifacts.Object{Size: int64(len(o))}, nil
}

func (o oneObject) Head(context.Context, string) (artifacts.Object, error) {
	return artifacts.Object{}, fmt.Errorf("%w", artifacts.ErrNotFound)
}
