package artifacts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
)

const (
	// headBytes is how much of an upload is read before it is known whether it is
	// small. Most artifacts are: they take one request and no part buffer.
	headBytes = 256 << 10
	// sniffBytes is how much of a file its media type is told from.
	sniffBytes = 4 << 10
)

// Options bound and name an upload.
type Options struct {
	// Limit is the most bytes there may be. It has no default: everything that comes
	// from a job is bounded.
	Limit int64
	// Name is the file's name, for its media type and for the client that downloads it.
	Name string
}

// Upload stores what r holds under key and tells what it was. It stores everything or
// nothing: when r fails, passes the limit ([ErrTooLarge]) or ctx ends, a multipart
// upload that was begun is aborted before Upload returns.
//
// Upload may hold (Concurrency + 1) × PartBytes, and waits while other uploads of the
// Store hold all of its MemoryBytes. Requests that fail for a passing reason are
// repeated from memory, so r is read once.
//
// Upload returns only when it has stopped reading r. To stop a Read that blocks, when
// ctx ends or S3 fails for good, it closes r if r is an io.Closer.
func (s *Store) Upload(ctx context.Context, key string, r io.Reader, o Options) (Object, error) {
	if most := s.config.PartBytes * maxParts; o.Limit <= 0 || o.Limit > most {
		return Object{}, fmt.Errorf("upload %q: limit of %d bytes is not 1 to %d", key, o.Limit, most)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer closeWhenDone(ctx, r)()

	head := s.heads.Get().(*[]byte)
	defer s.heads.Put(head)
	ended := func() error { return context.Cause(ctx) }
	src := &source{ended: ended, r: r, limit: o.Limit, hash: sha256.New()}
	n, err := fill(src, *head)
	if err != nil && !errors.Is(err, io.EOF) {
		return Object{}, fmt.Errorf("upload %q: %w", key, err)
	}
	begin := (*head)[:n]
	object := Object{Key: key, MediaType: MediaType(o.Name, begin[:min(n, sniffBytes)])}
	object.Kind = Kind(object.MediaType)

	if err != nil { // the end: it is small
		object.Size, object.SHA256 = src.n, src.sum()
		if err := s.put(ctx, Copy{object, disposition(o.Name, object.MediaType)}, begin); err != nil {
			return Object{}, fmt.Errorf("upload: %w", err)
		}
		return object, nil
	}
	if err := s.multipart(ctx, cancel, Copy{object, disposition(o.Name, object.MediaType)}, begin, src); err != nil {
		return Object{}, fmt.Errorf("upload %q: %w", key, err)
	}
	object.Size, object.SHA256 = src.n, src.sum()
	return object, nil
}

// closeWhenDone closes r, if it can be closed, when ctx ends before the function that
// it returns is called. That function waits for a Close under way.
func closeWhenDone(ctx context.Context, r io.Reader) (stop func()) {
	c, ok := r.(io.Closer)
	if !ok {
		return func() {}
	}
	closed := make(chan struct{})
	stopAfter := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = c.Close() // only to wake Read, whose error is the one that counts
	})
	return func() {
		if !stopAfter() {
			<-closed
		}
	}
}

// source counts, bounds and hashes what is read.
type source struct {
	ended func() error // why to stop, if so
	r     io.Reader
	limit int64
	hash  hash.Hash
	n     int64
	err   error
}

func (s *source) Read(p []byte) (int, error) {
	if err := s.ended(); err != nil {
		return 0, err
	}
	if s.err != nil {
		return 0, s.err
	}
	// One byte past the limit tells a file that fits from one that doesn't.
	p = p[:min(int64(len(p)), s.limit-s.n+1)]
	n, err := s.r.Read(p)
	s.n += int64(n)
	s.hash.Write(p[:n])
	switch ended := s.ended(); {
	case ended != nil:
		s.err = ended // r was closed under us: say why
	case s.n > s.limit:
		s.err = fmt.Errorf("%w of %d bytes", ErrTooLarge, s.limit)
	case err != nil && !errors.Is(err, io.EOF):
		s.err = fmt.Errorf("read body: %w", err)
	case err != nil:
		s.err = io.EOF
	}
	return n, s.err
}

func (s *source) sum() string { return hex.EncodeToString(s.hash.Sum(nil)) }

// fill reads until buf is full, and returns io.EOF only where r did. io.ReadFull
// would not do: it returns io.ErrUnexpectedEOF for a clean end, which is what a
// stream that broke off returns.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var k int
		k, err = r.Read(buf[n:])
		n += k
	}
	return n, err
}
