package artifacts

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// versionedLife is for how long a sweep goes by what the bucket said of its versioning.
const versionedLife = 5 * time.Minute

// versioning is what is known of the bucket's.
type versioning struct {
	mu    sync.Mutex
	keeps bool
	asked time.Time
}

// Versioned reports whether the bucket keeps old versions of its objects, or did. Then
// what is deleted is only hidden, unless each version is deleted, as [Store.Sweep] does.
func (s *Store) Versioned(ctx context.Context) (bool, error) {
	out, err := s.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &s.config.Bucket})
	if err != nil {
		return false, fmt.Errorf("ask bucket %q for its versioning: %w", s.config.Bucket, err)
	}
	return out.Status != "", nil // enabled, or suspended: what there was stays
}

// knowsVersions is Versioned as it was lately. A process that may not ask, or whose server
// doesn't know, sweeps objects: the first is a worker's, and the api sweeps after it.
func (s *Store) knowsVersions(ctx context.Context) (bool, error) {
	s.versions.mu.Lock()
	keeps, fresh := s.versions.keeps, time.Since(s.versions.asked) < versionedLife
	s.versions.mu.Unlock()
	if fresh {
		return keeps, nil
	}
	keeps, err := s.Versioned(ctx)
	var answered interface{ HTTPStatusCode() int }
	if err != nil && (!errors.As(err, &answered) || answered.HTTPStatusCode() >= 500 && answered.HTTPStatusCode() != 501) {
		return false, err
	}
	s.versions.mu.Lock()
	defer s.versions.mu.Unlock()
	s.versions.keeps, s.versions.asked = keeps, time.Now()
	return keeps, nil
}

// listVersions are all versions of the objects below prefix, and what says that one is
// deleted, a page at a time. It ends with the first error.
func (s *Store) listVersions(ctx context.Context, prefix string) iter.Seq2[[]types.ObjectIdentifier, error] {
	return func(yield func([]types.ObjectIdentifier, error) bool) {
		in := &s3.ListObjectVersionsInput{Bucket: &s.config.Bucket, Prefix: &prefix}
		for {
			page, err := s.client.ListObjectVersions(ctx, in)
			if err != nil {
				yield(nil, err)
				return
			}
			var list []types.ObjectIdentifier
			for _, v := range page.Versions {
				list = append(list, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
			}
			for _, m := range page.DeleteMarkers {
				list = append(list, types.ObjectIdentifier{Key: m.Key, VersionId: m.VersionId})
			}
			if !yield(list, nil) || page.IsTruncated == nil || !*page.IsTruncated {
				return
			}
			in.KeyMarker, in.VersionIdMarker = page.NextKeyMarker, page.NextVersionIdMarker
		}
	}
}
