package artifacts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/glovebox-run/glovebox/internal/await"
)

var (
	// ErrPublic means that anyone can read or list the bucket.
	ErrPublic = errors.New("the bucket is public")
	// ErrNotTried means that nobody can say whether it is: the object is not there that
	// [Store.Guard] writes, and would be read.
	ErrNotTried = errors.New("whether anyone can read the bucket was not tried: no api has started with it yet")
)

// tenantsPrefix is what all keys of tenants begin with: operators name it in policies of their own.
const tenantsPrefix = "tenants/"

// canaryKeys are objects that [Store.Check] tries to read without credentials: one beside what
// tenants have, and one among that. S3 refuses to say whether an object exists to a key that may not
// list, so only one that does exist shows that reading is refused.
var canaryKeys = []string{"glovebox-private", tenantsPrefix + "glovebox-private"}

// IsCanary reports whether the object is one that only shows that the bucket is private.
func IsCanary(key string) bool { return slices.Contains(canaryKeys, key) }

// Guard is [Store.Check] that first writes the objects which it tries to read.
func (s *Store) Guard(ctx context.Context) error {
	for _, key := range canaryKeys {
		if err := s.putCanary(ctx, key); err != nil {
			return fmt.Errorf("write to bucket %q: %w", s.config.Bucket, err)
		}
	}
	return s.Check(ctx)
}

// EnsureBucket makes the bucket, private, unless it is there.
func (s *Store) EnsureBucket(ctx context.Context) error {
	in := &s3.CreateBucketInput{Bucket: &s.config.Bucket}
	if s.config.Endpoint == "" && s.config.Region != "us-east-1" { // AWS wants it anywhere but there
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(s.config.Region)}
	}
	if _, err := s.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &s.config.Bucket}); err != nil {
		if !errors.Is(notFound(err), ErrNotFound) {
			return fmt.Errorf("look for bucket %q: %w", s.config.Bucket, err)
		}
		var ours *types.BucketAlreadyOwnedByYou // by another process, just now
		if _, err := s.client.CreateBucket(ctx, in); err != nil && !errors.As(err, &ours) {
			return fmt.Errorf("create bucket %q: %w", s.config.Bucket, err)
		}
	}
	for _, key := range canaryKeys {
		if _, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.config.Bucket, Key: &key}); err == nil {
			continue
		}
		if err := s.putCanary(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// Check asks whether the bucket can be reached with our credentials and can't be read
// without ([ErrPublic]). It writes nothing, and where it therefore can't tell, it fails
// with [ErrNotTried].
func (s *Store) Check(ctx context.Context) error {
	if _, err := s.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &s.config.Bucket}); err != nil {
		return fmt.Errorf("reach bucket %q: %w", s.config.Bucket, err)
	}
	none := false
	for _, key := range canaryKeys {
		_, err := s.Head(ctx, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("check bucket %q: %w", s.config.Bucket, err)
		}
		none = none || err != nil
	}
	for _, key := range append([]string{"", tenantsPrefix}, canaryKeys...) {
		open, err := s.readableByAnyone(ctx, key)
		if err != nil {
			return fmt.Errorf("read bucket %q without credentials: %w", s.config.Bucket, err)
		}
		if open {
			return fmt.Errorf("check bucket %q: %w: anyone can read %q", s.config.Bucket, ErrPublic, "/"+key)
		}
	}
	if none {
		return fmt.Errorf("check bucket %q: %w", s.config.Bucket, ErrNotTried)
	}
	return nil
}

// once is for requests that ask how things are now: they are not repeated.
func once(o *s3.Options) { o.Retryer = aws.NopRetryer{} }

// Ping asks, once, whether the bucket can be reached with our credentials. It fails with
// await.ErrSettings where the server says that there is no such bucket, or not for us.
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &s.config.Bucket}, once); err != nil {
		return fmt.Errorf("reach bucket %q: %w", s.config.Bucket, refusal(err))
	}
	return nil
}

// refusal adds await.ErrSettings to an answer that no waiting changes.
func refusal(err error) error {
	var answered interface{ HTTPStatusCode() int }
	if !errors.As(err, &answered) {
		return err
	}
	switch answered.HTTPStatusCode() {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMovedPermanently:
		return fmt.Errorf("%w: %w", await.ErrSettings, err)
	}
	return err
}

// TryWrite tries, once, whether the bucket takes an object. It leaves nothing that was
// not there before: it writes an object that [Store.EnsureBucket] does.
func (s *Store) TryWrite(ctx context.Context) error {
	if err := s.putCanary(ctx, canaryKeys[0], once); err != nil {
		return fmt.Errorf("write to bucket %q: %w", s.config.Bucket, err)
	}
	return nil
}

func (s *Store) putCanary(ctx context.Context, key string, options ...func(*s3.Options)) error {
	_, err := s.putBytes(ctx, key, textUTF8, []byte("This object is private. Glovebox checks that it stays so.\n"), options...)
	return err
}

// readableByAnyone gets key, or lists what is below it where it is a prefix, "" or one with a slash, unsigned.
func (s *Store) readableByAnyone(ctx context.Context, key string) (bool, error) {
	var err error
	if key == "" || strings.HasSuffix(key, "/") {
		_, err = s.anonymous.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &s.config.Bucket, Prefix: &key, MaxKeys: aws.Int32(1)})
	} else {
		_, err = s.anonymous.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.config.Bucket, Key: &key})
	}
	var answered interface{ HTTPStatusCode() int }
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &answered) && answered.HTTPStatusCode() >= 400 && answered.HTTPStatusCode() < 500:
		return false, nil
	}
	return false, err
}
