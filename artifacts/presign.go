package artifacts

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// maxPresign is the longest that S3 lets a signature of version 4 live.
const maxPresign = 7 * 24 * time.Hour

// Presign returns a URL that reads one object without credentials until ttl has
// passed, or the credentials that signed it have. It does not talk to the bucket.
//
// What is downloaded has filename as its name. Images and plain text are shown by a
// browser, anything else is saved: it comes from a job, and a page or an SVG of a
// job's making must not run with the bucket's origin.
func (s *Store) Presign(ctx context.Context, key, filename, mediaType string, ttl time.Duration) (string, error) {
	if ttl < time.Second || ttl > maxPresign {
		return "", fmt.Errorf("presign object %q: life time %s is not 1s to %s", key, ttl, maxPresign)
	}
	req, err := s.presign.PresignGetObject(ctx, &s3.GetObjectInput{
		Bucket: &s.config.Bucket, Key: &key,
		ResponseContentType:        &mediaType,
		ResponseContentDisposition: aws.String(disposition(filename, mediaType)),
	}, s3.WithPresignExpires(ttl))
	if err != nil {
		return "", fmt.Errorf("presign object %q: %w", key, err)
	}
	return req.URL, nil
}
