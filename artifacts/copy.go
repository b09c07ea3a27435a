package artifacts

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Copy is an object as it is kept elsewhere: all that S3 knows of it which Glovebox reads again.
type Copy struct {
	Object
	// Disposition is the Content-Disposition that it is served with; "" for none.
	Disposition string
}

// List lists the objects below prefix, "" for all, as they are named, without the bucket's own ([IsCanary]). It ends
// with the first error.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for page, err := range s.listObjects(ctx, prefix) {
			if err != nil {
				yield("", fmt.Errorf("list objects below %q: %w", prefix, err))
				return
			}
			for _, o := range page {
				if !IsCanary(*o.Key) && !yield(*o.Key, nil) {
					return
				}
			}
		}
	}
}

// OpenCopy opens an object with what [Store.PutCopy] wants of it, or fails with [ErrNotFound]. The
// caller closes the body.
func (s *Store) OpenCopy(ctx context.Context, key string) (io.ReadCloser, Copy, error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.config.Bucket, Key: &key})
	if err != nil {
		return nil, Copy{}, fmt.Errorf("get object %q: %w", key, notFound(err))
	}
	return out.Body, Copy{
		Object:      Object{Key: key, Size: aws.ToInt64(out.ContentLength), SHA256: out.Metadata[hashMetadata], MediaType: aws.ToString(out.ContentType)},
		Disposition: aws.ToString(out.ContentDisposition),
	}, nil
}

// PutCopy stores what r holds as the object that it was, all or nothing, as [Store.Upload] does. It
// fails where r doesn't hold exactly its size.
func (s *Store) PutCopy(ctx context.Context, c Copy, r io.Reader) error {
	if most := s.config.PartBytes * maxParts; c.Size < 0 || c.Size > most {
		return fmt.Errorf("put object %q: %d bytes are not 0 to %d", c.Key, c.Size, most)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	src := &source{ended: func() error { return context.Cause(ctx) }, r: &exactly{r, c.Size}, limit: c.Size, hash: sha256.New()}
	head := s.heads.Get().(*[]byte)
	defer s.heads.Put(head)
	n, err := fill(src, *head)
	switch {
	case err == nil:
		err = s.multipart(ctx, cancel, c, (*head)[:n], src)
	case errors.Is(err, io.EOF):
		err = s.put(ctx, c, (*head)[:n])
	}
	if err != nil {
		return fmt.Errorf("put object %q: %w", c.Key, err)
	}
	return nil
}

// exactly fails where there are fewer bytes than left, before anybody takes what there is for all.
type exactly struct {
	r    io.Reader
	left int64
}

func (e *exactly) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	e.left -= int64(n)
	if errors.Is(err, io.EOF) && e.left > 0 {
		err = fmt.Errorf("%w: %d bytes are missing", errShort, e.left)
	}
	return n, err
}

var errShort = errors.New("it ends too early")

// Rename gives an object of at most 5 GiB another key: the server copies it, whole or not at all, and then the first is deleted.
func (s *Store) Rename(ctx context.Context, from, to string) error {
	_, err := s.client.CopyObject(ctx, &s3.CopyObjectInput{
		Bucket: &s.config.Bucket, Key: &to, CopySource: aws.String(url.PathEscape(s.config.Bucket) + "/" + escapeKey(from)),
	})
	if err != nil {
		return fmt.Errorf("copy object %q to %q: %w", from, to, notFound(err))
	}
	return s.Remove(ctx, from)
}

// Remove deletes one object. One that is not there is no error.
func (s *Store) Remove(ctx context.Context, key string) error {
	if _, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.config.Bucket, Key: &key}); err != nil {
		return fmt.Errorf("delete object %q: %w", key, err)
	}
	return nil
}

// escapeKey is a key as a header's URL has it.
func escapeKey(key string) string { return (&url.URL{Path: key}).EscapedPath() }
