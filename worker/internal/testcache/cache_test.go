package testcache

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bucket is a real one, whose requests are counted.
type bucket struct {
	*artifacts.Store
	proxy *gbtest.S3Proxy
}

func openBucket(t *testing.T) bucket {
	t.Helper()
	s3 := gbtest.S3(t)
	proxy := s3.Proxy(t)
	store, err := artifacts.Open(t.Context(), artifacts.Config{
		Endpoint: proxy.Endpoint, Region: s3.Region, Bucket: "glovebox", AccessKey: s3.AccessKey, SecretKey: s3.SecretKey, PathStyle: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	if err := store.EnsureBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	return bucket{store, proxy}
}

// put stores an upload of a tenant, and returns its key and its SHA-256.
func (b bucket) put(t *testing.T, tenant string, content []byte) (key, sum string) {
	t.Helper()
	h := sha256.Sum256(content)
	sum = hex.EncodeToString(h[:])
	key, err := artifacts.UploadKey(tenant, sum)
	if err == nil {
		_, err = b.PutBytes(t.Context(), key, "application/octet-stream", content)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key, sum
}

func (b bucket) gets(key string) int { return b.proxy.Counts()["GET /glovebox/"+key] }

// counted is a cache whose results are counted.
type counted struct {
	*Cache
	log gbtest.Buffer

	mu      sync.Mutex
	results map[Result]int
	most    int64 // that it held at once
	holds   int64
}

func open(t *testing.T, b Bucket, change func(*Config)) *counted {
	t.Helper()
	c := &counted{results: map[Result]int{}}
	config := Config{
		Dir: t.TempDir(), MaxBytes: 64 << 20, MaxObject: 64 << 20, Bucket: b, Log: slog.New(slog.NewTextHandler(&c.log, nil)),
		Count: func(r Result) { c.mu.Lock(); defer c.mu.Unlock(); c.results[r]++ },
		Holds: func(n int64) { c.mu.Lock(); defer c.mu.Unlock(); c.holds, c.most = n, max(c.most, n) },
	}
	if change != nil {
		change(&config)
	}
	var err error
	if c.Cache, err = Open(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(c.dir.path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its directory is left: %v", err)
		}
	})
	return c
}

// is fails unless the results so far are those.
func (c *counted) is(t *testing.T, want map[Result]int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !maps.Equal(c.results, want) {
		t.Errorf("got the results %v, want %v", c.results, want)
	}
}

// read reads an object through the cache.
func (c *counted) read(t *testing.T, key, sum string) ([]byte, error) {
	t.Helper()
	r, err := c.Open(t.Context(), key, sum)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func (c *counted) reads(t *testing.T, key, sum string, want []byte) {
	t.Helper()
	if got, err := c.read(t, key, sum); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, %v, want those %d that were put", len(got), err, len(want))
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// onDisk is what a directory's files have, bytes.
func onDisk(t *testing.T, dir string) (sum int64) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// TestOneReadOfTheBucket: many that want the same at once, and after each other.
func TestOneReadOfTheBucket(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	content := random(3 << 20)
	key, sum := b.put(t, "acme", content)
	c := open(t, b, nil)
	release := b.proxy.Hold()
	defer release()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { c.reads(t, key, sum, content) })
	}
	gbtest.Eventually(t, "the bucket is asked", func() bool { return b.gets(key) > 0 })
	release()
	all.Wait()
	for range 20 {
		c.reads(t, key, sum, content)
	}
	if got := b.gets(key); got != 1 {
		t.Errorf("the bucket was read %d times", got)
	}
	if got := c.results[Hit] + c.results[Miss]; got != 40 || c.results[Hit] < 20 || len(c.results) != 2 {
		t.Errorf("got the results %v", c.results)
	}
	info, err := os.Stat(c.dir.path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory can be entered by others: %v, %v", info.Mode(), err)
	}
}

// TestTenantsAreApart: a tenant is handed nothing that only another has uploaded, and the bucket is asked
// as if nobody had it.
func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	content := random(1000)
	key, sum := b.put(t, "acme", content)
	c := open(t, b, nil)
	c.reads(t, key, sum, content)
	guessed, err := artifacts.UploadKey("other", sum)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.read(t, guessed, sum); !errors.Is(err, artifacts.ErrNotFound) {
			t.Errorf("got %v, want what a digest that nobody has uploaded gets", err)
		}
	}
	if got := b.gets(guessed); got != 2 {
		t.Errorf("the bucket was asked %d times, want each time", got)
	}
	c.is(t, map[Result]int{Miss: 1})
}

// TestSmallCache: what was not used for the longest time goes; what is being read has its room until then.
func TestSmallCache(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	const size = 1 << 20
	c := open(t, b, func(c *Config) { c.MaxBytes = 3 * (size + fileCost) })
	var keys, sums []string
	var contents [][]byte
	for range 5 {
		content := random(size)
		key, sum := b.put(t, "acme", content)
		keys, sums, contents = append(keys, key), append(sums, sum), append(contents, content)
	}
	for _, i := range []int{0, 1, 2, 0, 3, 0, 2, 1} { // 3 evicts 1, 1 evicts 3
		c.reads(t, keys[i], sums[i], contents[i])
	}
	for i, want := range []int{1, 2, 1, 1, 0} {
		if got := b.gets(keys[i]); got != want {
			t.Errorf("object %d was read %d times from the bucket, want %d", i, got, want)
		}
	}
	var held []io.ReadCloser
	for _, i := range []int{0, 1, 2} {
		r, err := c.Open(t.Context(), keys[i], sums[i])
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, r)
	}
	if _, err := c.read(t, keys[3], sums[3]); !errors.Is(err, ErrUncached) {
		t.Errorf("with all room in use: got %v", err)
	}
	for _, r := range held {
		if got, err := io.ReadAll(r); err != nil || len(got) != size {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
		r.Close()
	}
	c.reads(t, keys[3], sums[3], contents[3])
	if disk := onDisk(t, c.dir.path); c.most > c.MaxBytes || disk > c.MaxBytes || disk != 3*size {
		t.Errorf("%d bytes at once and %d in files, of %d", c.most, disk, c.MaxBytes)
	}
	big := random(4 * size)
	key, sum := b.put(t, "acme", big)
	if _, err := c.read(t, key, sum); !errors.Is(err, ErrUncached) {
		t.Errorf("what is larger than all: got %v", err)
	}
	if disk := onDisk(t, c.dir.path); disk != 3*size {
		t.Errorf("what is too large has evicted others: %d bytes are left", disk)
	}
}

// TestCanceled: who gives up does not take the fetch from others.
func TestCanceled(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	key, sum := b.put(t, "acme", []byte("content"))
	c := open(t, b, nil)
	release := b.proxy.Hold()
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { _, err := c.Open(ctx, key, sum); first <- err }()
	gbtest.Eventually(t, "the bucket is asked", func() bool { return b.gets(key) > 0 })
	second := make(chan struct{})
	go func() { defer close(second); c.reads(t, key, sum, []byte("content")) }()
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	release()
	<-second
	if got := b.gets(key); got != 1 {
		t.Errorf("the bucket was read %d times", got)
	}
}
