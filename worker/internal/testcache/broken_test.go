package testcache

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
)

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
