package artifacts

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Swept counts what a sweep removed.
type Swept struct{ Objects, Uploads int }

// Sweep deletes the objects and aborts the unfinished multipart uploads below prefix,
// except for those whose key keep wants, and the bucket's own ([IsCanary]); a nil keep wants none. It is
// for what lost attempts left behind: keep must want everything of an attempt that still runs.
//
// It goes on past an object that can't be deleted, and returns what it did with the
// errors of what it couldn't do.
func (s *Store) Sweep(ctx context.Context, prefix string, keep func(key string) bool) (Swept, error) {
	if prefix == "" {
		return Swept{}, errors.New("sweep bucket: the prefix is empty, which would be everything")
	}
	kept := func(key string) bool { return IsCanary(key) || keep != nil && keep(key) }
	uploads, uploadErr := s.sweepUploads(ctx, prefix, kept) // first: one that ends now becomes an object
	objects, objectErr := s.sweepObjects(ctx, prefix, kept)
	return Swept{objects, uploads}, errors.Join(uploadErr, objectErr)
}

// SweepJob deletes all that a job has in the bucket but what the try of epoch keep
// stored; 0 keeps nothing.
func (s *Store) SweepJob(ctx context.Context, tenant, id string, keep int) error {
	keys, err := JobKeys(tenant, id)
	if err != nil {
		return err
	}
	kept := keys.EpochPrefix(int64(keep))
	_, err = s.Sweep(ctx, keys.Prefix(), func(key string) bool { return keep > 0 && strings.HasPrefix(key, kept) })
	return err
}

// SweepUpload deletes a tenant's upload.
func (s *Store) SweepUpload(ctx context.Context, tenant, sha256 string) error {
	key, err := UploadKey(tenant, sha256)
	if err != nil {
		return err
	}
	_, err = s.Sweep(ctx, key, nil)
	return err
}

func (s *Store) sweepObjects(ctx context.Context, prefix string, keep func(string) bool) (int, error) {
	versioned, err := s.knowsVersions(ctx)
	if err != nil {
		return 0, err
	}
	list := s.listObjects(ctx, prefix)
	if versioned {
		list = s.listVersions(ctx, prefix)
	}
	swept := 0
	var errs []error
	for page, err := range list {
		if err != nil {
			return swept, errors.Join(append(errs, fmt.Errorf("list objects below %q: %w", prefix, err))...)
		}
		unwanted := slices.DeleteFunc(page, func(o types.ObjectIdentifier) bool { return keep(*o.Key) })
		if len(unwanted) == 0 {
			continue
		}
		out, err := s.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
			Bucket: &s.config.Bucket, Delete: &types.Delete{Objects: unwanted, Quiet: aws.Bool(true)},
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("delete %d objects below %q: %w", len(unwanted), prefix, err))
			continue
		}
		for _, e := range out.Errors {
			errs = append(errs, fmt.Errorf("delete object %q: %s: %s", aws.ToString(e.Key), aws.ToString(e.Code), aws.ToString(e.Message)))
		}
		swept += len(unwanted) - len(out.Errors)
	}
	return swept, errors.Join(errs...)
}

// listObjects are the objects below prefix, a page at a time. It ends with the first error.
func (s *Store) listObjects(ctx context.Context, prefix string) iter.Seq2[[]types.ObjectIdentifier, error] {
	return func(yield func([]types.ObjectIdentifier, error) bool) {
		pages := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{Bucket: &s.config.Bucket, Prefix: &prefix})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			list := make([]types.ObjectIdentifier, len(page.Contents))
			for i, o := range page.Contents {
				list[i].Key = o.Key
			}
			if !yield(list, nil) {
				return
			}
		}
	}
}

func (s *Store) sweepUploads(ctx context.Context, prefix string, keep func(string) bool) (int, error) {
	swept := 0
	var errs []error
	pages := s3.NewListMultipartUploadsPaginator(s.client, &s3.ListMultipartUploadsInput{Bucket: &s.config.Bucket, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return swept, errors.Join(append(errs, fmt.Errorf("list multipart uploads below %q: %w", prefix, err))...)
		}
		for _, u := range page.Uploads {
			if keep(*u.Key) {
				continue
			}
			if err := s.abort(ctx, *u.Key, *u.UploadId); err != nil {
				errs = append(errs, err)
				continue
			}
			swept++
		}
	}
	return swept, errors.Join(errs...)
}
