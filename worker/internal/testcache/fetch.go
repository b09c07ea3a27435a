package testcache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"
)

// fetch has an object fetched, once for all that want it at the same time, and waits for that.
func (c *Cache) fetch(ctx context.Context, key, sum string) error {
	done := make(chan error, 1)
	c.fetching.Go(func() {
		_, err, _ := c.fetches.Do(key, func() (any, error) { return nil, c.store(c.life, key, sum) })
		done <- err
	})
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var disk *diskError
	switch {
	case errors.As(err, &disk):
		c.warn(err)
		fallthrough
	case errors.Is(err, ErrUncached):
		c.Count(Uncached)
		return ErrUncached
	}
	return err
}

// store fetches an object, unless it is there.
func (c *Cache) store(ctx context.Context, key, sum string) (err error) {
	if e := c.take(key); e != nil {
		c.release(e)
		return nil
	}
	body, o, err := c.Bucket.Get(ctx, key)
	if err != nil {
		return err
	}
	defer body.Close()
	if o.Size > c.MaxObject {
		return ErrChanged
	}
	e := c.reserve(key, o.Size)
	if e == nil {
		return ErrUncached
	}
	if err := c.write(e, body, sum); err != nil {
		c.drop(e)
		return err
	}
	c.keep(e)
	return nil
}

// write makes the entry's file. It writes no more than what was reserved.
func (c *Cache) write(e *entry, body io.Reader, sum string) error {
	f, err := c.dir.create(e.name)
	if err != nil {
		return &diskError{err}
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(diskWriter{f}, h), io.LimitReader(body, e.size))
	if closeErr := f.Close(); err == nil && closeErr != nil {
		err = &diskError{closeErr}
	}
	if err != nil {
		return fmt.Errorf("fetch object %q: %w", e.key, err)
	}
	if n != e.size || hex.EncodeToString(h.Sum(nil)) != sum {
		return ErrChanged
	}
	return nil
}

// diskError tells an error of the disk from one of the bucket.
type diskError struct{ error }

func (e *diskError) Unwrap() error { return e.error }

type diskWriter struct{ w io.Writer }

func (d diskWriter) Write(p []byte) (int, error) {
	n, err := d.w.Write(p)
	if err != nil {
		err = &diskError{err}
	}
	return n, err
}

// warn says that the disk fails, now and then.
func (c *Cache) warn(err error) {
	c.mu.Lock()
	due := time.Since(c.warned) >= warnEvery
	if due {
		c.warned = time.Now()
	}
	c.mu.Unlock()
	if due {
		c.Log.Warn("test data can't be kept on this disk, and is read from the bucket", "dir", c.dir.path, "error", err)
	}
}
