package testcache

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

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

// TestDamagedFile: another content, a shorter file, none at all: each is noticed before a byte is handed
// out, and the object is fetched once more.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	content := random(200_000)
	for name, damage := range map[string]func(path string) error{
		"a bit": func(path string) error {
			changed := bytes.Clone(content)
			changed[150_000] ^= 1
			return os.WriteFile(path, changed, 0o600)
		},
		"cut":     func(path string) error { return os.Truncate(path, 100_000) },
		"longer":  func(path string) error { return os.WriteFile(path, append(bytes.Clone(content), 'x'), 0o600) },
		"gone":    os.Remove,
		"a link":  func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/etc/hostname", path)) },
		"a place": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, sum := b.put(t, strings.ReplaceAll(name, " ", "-"), content)
			c := open(t, b, nil)
			c.reads(t, key, sum, content)
			if err := damage(filepath.Join(c.dir.path, c.entries[key].name)); err != nil {
				t.Fatal(err)
			}
			c.reads(t, key, sum, content)
			c.reads(t, key, sum, content)
			if got := b.gets(key); got != 2 {
				t.Errorf("the bucket was read %d times", got)
			}
			c.is(t, map[Result]int{Miss: 2, Damaged: 1, Hit: 1})
			if !strings.Contains(c.log.String(), "damaged") {
				t.Errorf("it isn't said: %s", c.log.String())
			}
		})
	}
}

// TestWrongObject: what the bucket has is not what the key says.
func TestWrongObject(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	_, sum := b.put(t, "acme", []byte("right"))
	key, err := artifacts.UploadKey("other", sum)
	if err == nil {
		_, err = b.PutBytes(t.Context(), key, "text/plain", []byte("wrong"))
	}
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, b, func(c *Config) { c.MaxObject = 100 })
	long, longSum := b.put(t, "acme", random(101))
	for range 2 {
		if _, err := c.read(t, key, sum); !errors.Is(err, ErrChanged) {
			t.Errorf("got %v", err)
		}
		if _, err := c.read(t, long, longSum); !errors.Is(err, ErrChanged) {
			t.Errorf("longer than any: got %v", err)
		}
	}
	if c.holds != 0 || onDisk(t, c.dir.path) != 0 {
		t.Errorf("it holds %d bytes", c.holds)
	}
}

// TestDeletedObject: what was deleted from the bucket is not served a minute later.
func TestDeletedObject(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	key, sum := b.put(t, "acme", []byte("content"))
	c := open(t, b, nil)
	c.reads(t, key, sum, []byte("content"))
	later := func() { c.mu.Lock(); c.entries[key].known = time.Now().Add(-recheck); c.mu.Unlock() }
	later()
	c.reads(t, key, sum, []byte("content"))
	c.reads(t, key, sum, []byte("content"))
	if got := b.proxy.Counts()["HEAD /glovebox/"+key]; got != 1 {
		t.Errorf("the bucket was asked %d times in a minute", got)
	}
	if _, err := b.Sweep(t.Context(), key, func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	later()
	if _, err := c.read(t, key, sum); !errors.Is(err, artifacts.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if onDisk(t, c.dir.path) != 0 {
		t.Error("its file is left")
	}
}

// TestBrokenDisk: a directory in which nothing can be made is warned of once, and the bucket is read.
func TestBrokenDisk(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	key, sum := b.put(t, "acme", []byte("content"))
	c := open(t, b, nil)
	if err := os.Remove(c.dir.path); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.read(t, key, sum); !errors.Is(err, ErrUncached) {
			t.Errorf("got %v", err)
		}
	}
	if got := strings.Count(c.log.String(), "can't be kept"); got != 1 || c.holds != 0 {
		t.Errorf("warned %d times, holds %d bytes", got, c.holds)
	}
	c.is(t, map[Result]int{Uncached: 3})
}

// TestBucketIsAway: that is no fault of the disk's, and is not kept.
func TestBucketIsAway(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	c := open(t, brokenBucket{away}, nil)
	for range 2 {
		if _, err := c.read(t, "key", "sum"); !errors.Is(err, away) {
			t.Errorf("got %v", err)
		}
	}
	if c.holds != 0 {
		t.Errorf("it holds %d bytes", c.holds)
	}
}

// brokenBucket breaks off in the middle of an object.
type brokenBucket struct{ err error }

func (b brokenBucket) Get(context.Context, string) (io.ReadCloser, artifacts.Object, error) {
	return io.NopCloser(io.MultiReader(strings.NewReader("half"), brokenReader(b))), artifacts.Object{Size: 8}, nil
}

func (b brokenBucket) Head(context.Context, string) (artifacts.Object, error) {
	return artifacts.Object{}, b.err
}

type brokenReader brokenBucket

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

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

// TestKilledHelper is no test: it is the process that TestKilled kills in the middle of a fetch.
func TestKilledHelper(t *testing.T) { //nolint:paralleltest // a process of its own
	dir := os.Getenv("GLOVEBOX_TEST_CACHE")
	if dir == "" {
		t.Skip("only for TestKilled")
	}
	c := open(t, stuckBucket{}, func(c *Config) { c.Dir = dir })
	h := sha256.Sum256([]byte("whole"))
	c.reads(t, "whole", hex.EncodeToString(h[:]), []byte("whole"))
	_, _ = c.read(t, "half", "sum")
}

// stuckBucket has an object, and begins another.
type stuckBucket struct{}

func (stuckBucket) Get(_ context.Context, key string) (io.ReadCloser, artifacts.Object, error) {
	if key == "whole" {
		return io.NopCloser(strings.NewReader(key)), artifacts.Object{Size: 5}, nil
	}
	never, _ := io.Pipe()
	return io.NopCloser(io.MultiReader(strings.NewReader("half"), never)), artifacts.Object{Size: 8}, nil
}

func (stuckBucket) Head(context.Context, string) (artifacts.Object, error) {
	return artifacts.Object{}, nil
}

// TestKilled: of a process that is killed while it fetches, the next one uses nothing, and removes all.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	helper := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestKilledHelper$")
	helper.Env = append(os.Environ(), "GLOVEBOX_TEST_CACHE="+dir)
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	left := func() string { names, _ := filepath.Glob(dir + "/*/*"); return strings.Join(names, " ") }
	gbtest.Eventually(t, "it has one object, and a part of another", func() bool { return strings.HasSuffix(left(), "/2") })
	if err := errors.Join(helper.Process.Kill(), ignored(helper.Wait())); err != nil {
		t.Fatal(err)
	}
	if left() == "" {
		t.Fatal("nothing is left of it: this proves nothing")
	}
	c := open(t, stuckBucket{}, func(c *Config) { c.Dir = dir })
	if left() != "" || c.holds != 0 {
		t.Errorf("the next one has %s", left())
	}
	h := sha256.Sum256([]byte("whole"))
	c.reads(t, "whole", hex.EncodeToString(h[:]), []byte("whole"))
	c.is(t, map[Result]int{Miss: 1})
}

// ignored is how a process ended that was killed.
func ignored(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// TestLeftDirectory: what a killed process left is removed by the next, and that of a live one is not.
func TestLeftDirectory(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	parent := t.TempDir()
	in := func(c *Config) { c.Dir = parent }
	left := filepath.Join(parent, prefix+"123")
	if err := errors.Join(os.Mkdir(left, 0o700), os.WriteFile(filepath.Join(left, "1"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"notes", prefix + "file"} {
		if err := os.WriteFile(filepath.Join(parent, other), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := open(t, b, in)
	second := open(t, b, in)
	key, sum := b.put(t, "acme", []byte("content"))
	first.reads(t, key, sum, []byte("content"))
	second.reads(t, key, sum, []byte("content"))
	if names, err := filepath.Glob(parent + "/*"); err != nil || len(names) != 4 {
		t.Errorf("got %v, %v", names, err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was left is there: %v", err)
	}
}

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
