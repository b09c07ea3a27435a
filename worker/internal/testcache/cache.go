package testcache

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/glovebox-run/glovebox/artifacts"
)

const (
	// recheck is how long after the bucket was last asked an object counts as still there.
	recheck = time.Minute
	// fileCost is what a file takes beside its content, bytes: its block, its inode, its entry here. It
	// bounds the number of files: 65,536 in 1 GiB.
	fileCost = 16 << 10
	// warnEvery is how long a disk that fails is not warned of again.
	warnEvery = time.Minute
)

var (
	// ErrUncached says that the cache can't help, and that the bucket is to be read.
	ErrUncached = errors.New("not kept by the cache")
	// ErrChanged says that the object in the bucket is not the one that was asked for.
	ErrChanged = errors.New("the object does not have the size and SHA-256 that it should have")
)

// Result is what a call of [Cache.Open] came to.
type Result string

// The results.
const (
	Hit      Result = "hit"      // it was on the disk
	Miss     Result = "miss"     // it was fetched, by this call or by one at the same time
	Damaged  Result = "damaged"  // the file was not what it should have been; counted beside what follows
	Uncached Result = "uncached" // the bucket is read: the disk failed, or there is no room
)

// Bucket is where what is kept comes from; an [artifacts.Store] is one.
type Bucket interface {
	Get(ctx context.Context, key string) (io.ReadCloser, artifacts.Object, error)
	Head(ctx context.Context, key string) (artifacts.Object, error)
}

// Config is what a Cache works with; it has no defaults.
type Config struct {
	// Dir is the directory in which the cache makes one of its own.
	Dir string
	// MaxBytes bounds what is on the disk, and MaxObject one object of it.
	MaxBytes, MaxObject int64
	Bucket              Bucket
	// Count is told of each result, and Holds how many bytes are held, whenever that changes.
	Count func(Result)
	Holds func(bytes int64)
	Log   *slog.Logger
}

// Cache is safe for concurrent use. A nil one keeps nothing.
type Cache struct {
	Config
	dir      *directory
	life     context.Context //nolint:containedctx // of fetches: they outlive the job that asked first, as others may wait
	end      context.CancelFunc
	fetches  singleflight.Group
	fetching sync.WaitGroup

	mu      sync.Mutex
	entries map[string]*entry // by key
	recent  *list.List        // of entries, the last used first
	bytes   int64             // of all files that are there, those that readers have open included
	files   int64             // how many were made
	warned  time.Time         // when the disk was last warned of
}

// entry is a file that has an object's content. All but key, name and size are guarded by the cache's mu.
type entry struct {
	key, name string
	size      int64
	place     *list.Element // in recent; nil while it is being fetched, and once it is dropped
	known     time.Time     // when the bucket last had it
	readers   int
	dropped   bool // its room is free once there are no readers
}

func (e *entry) cost() int64 { return e.size + fileCost }

// Open makes the cache's directory, and removes those of processes that have died. The error is the disk's.
func Open(c Config) (*Cache, error) {
	dir, err := makeDirectory(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("make a cache: %w", err)
	}
	life, end := context.WithCancel(context.Background())
	return &Cache{Config: c, dir: dir, life: life, end: end, entries: map[string]*entry{}, recent: list.New()}, nil
}

// Close ends fetches, and removes all. No Open may be under way, and all readers have to be closed.
func (c *Cache) Close() error {
	if c == nil {
		return nil
	}
	c.end()
	c.fetching.Wait()
	return c.dir.remove()
}

// Open returns an object whose content has that SHA-256, in lower-case hex. It is fetched from the bucket
// first if it isn't there. The caller closes the reader.
//
// Errors are [ErrUncached], [ErrChanged], and those of the bucket: artifacts.ErrNotFound among them, also
// of an object that was deleted since it was fetched.
func (c *Cache) Open(ctx context.Context, key, sum string) (*Reader, error) {
	if c == nil {
		return nil, ErrUncached
	}
	for range 2 { // once more for a file that was damaged, or given up for another before it was opened
		result := Hit
		e := c.take(key)
		if e == nil {
			result = Miss
			if err := c.fetch(ctx, key, sum); err != nil {
				return nil, err
			}
			if e = c.take(key); e == nil {
				continue
			}
		}
		if err := c.stillThere(ctx, e); err != nil {
			c.release(e)
			return nil, err
		}
		r, err := c.read(ctx, e, sum)
		if err == nil {
			c.Count(result)
			return r, nil
		}
		if ctx.Err() == nil {
			c.Count(Damaged)
			c.Log.Warn("a file of the cache of test data is damaged, and fetched once more", "key", key, "error", err)
			c.drop(e)
		}
		c.release(e)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	c.Count(Uncached)
	return nil, ErrUncached
}

// read opens an entry's file, once all of it was read and is what it should be. The reader releases the
// entry.
func (c *Cache) read(ctx context.Context, e *entry, sum string) (*Reader, error) {
	f, err := c.dir.open(e.name)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	_, err = io.Copy(h, &stoppable{ctx, f})
	if err == nil && hex.EncodeToString(h.Sum(nil)) != sum {
		err = errors.New("it does not have its SHA-256")
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Reader{f, e.size, sync.OnceFunc(func() { c.release(e) })}, nil
}

// Reader is an object's content.
type Reader struct {
	io.ReadCloser
	size    int64
	release func()
}

// Size is that of the whole content, bytes.
func (r *Reader) Size() int64 { return r.size }

// Close lets the object go when there is no room.
func (r *Reader) Close() error {
	defer r.release()
	return r.ReadCloser.Close()
}

// stoppable is a reader that fails once ctx ends.
type stoppable struct {
	ctx context.Context //nolint:containedctx // of one call
	r   io.Reader
}

func (s *stoppable) Read(p []byte) (int, error) {
	if err := context.Cause(s.ctx); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}

// stillThere asks the bucket whether it still has the entry's object, unless it has just been asked.
func (c *Cache) stillThere(ctx context.Context, e *entry) error {
	c.mu.Lock()
	known := time.Since(e.known) < recheck
	c.mu.Unlock()
	if known {
		return nil
	}
	now := time.Now()
	if _, err := c.Bucket.Head(ctx, e.key); err != nil {
		if errors.Is(err, artifacts.ErrNotFound) {
			c.drop(e)
		}
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e.known = now
	return nil
}

// take returns the entry of a key for one reader, or nil.
func (c *Cache) take(key string) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if e != nil {
		c.recent.MoveToFront(e.place)
		e.readers++
	}
	return e
}

// release says that one reader of the entry less is there.
func (c *Cache) release(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.readers--
	c.freeUnused(e)
}

// drop forgets an entry.
func (c *Cache) drop(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(e)
}

func (c *Cache) dropLocked(e *entry) {
	if e.dropped {
		return
	}
	e.dropped = true
	if e.place != nil {
		c.recent.Remove(e.place)
		delete(c.entries, e.key)
		e.place = nil
	}
	c.dir.removeFile(e.name)
	c.freeUnused(e)
}

// freeUnused gives back the room of a file that is not there any more: it has no name, and nobody reads it.
func (c *Cache) freeUnused(e *entry) {
	if e.dropped && e.readers == 0 {
		c.bytes -= e.cost()
		c.Holds(c.bytes)
	}
}

// reserve makes room for an object, by dropping those that were not used for the longest time. It returns
// an entry that is the caller's to keep or drop, or nil if there is no room.
func (c *Cache) reserve(key string, size int64) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &entry{key: key, size: size, known: time.Now()}
	for oldest := c.recent.Back(); oldest != nil && e.cost() <= c.MaxBytes && c.bytes+e.cost() > c.MaxBytes; {
		before := oldest.Prev()
		if old := oldest.Value.(*entry); old.readers == 0 { // one that is read has its room until it is closed
			c.dropLocked(old)
		}
		oldest = before
	}
	if c.bytes+e.cost() > c.MaxBytes {
		return nil
	}
	c.files++
	e.name = strconv.FormatInt(c.files, 10)
	c.bytes += e.cost()
	c.Holds(c.bytes)
	return e
}

// keep makes an entry one that others find.
func (c *Cache) keep(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.place = c.recent.PushFront(e)
	c.entries[e.key] = e
}
