package artifacts

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
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

// Put is a request that stores one content, and no other, under one key.
type Put struct {
	URL string
	// Header has to be sent as it is: it is signed. The client sends Content-Length by itself.
	Header map[string]string
}

// PresignPut returns a request that stores the content with that SHA-256, in hex, and of
// that size under key, without credentials, until ttl has passed. The server refuses any
// other content. It does not talk to the bucket.
func (s *Store) PresignPut(ctx context.Context, key, sha256 string, size int64, ttl time.Duration) (Put, error) {
	sum, err := hex.DecodeString(sha256)
	if err != nil || ttl < time.Second || ttl > maxPresign {
		return Put{}, fmt.Errorf("presign put of %q: SHA-256 %.80q or life time %s is wrong", key, sha256, ttl)
	}
	req, err := s.presign.PresignPutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.config.Bucket, Key: &key, ContentLength: &size,
		ChecksumAlgorithm: types.ChecksumAlgorithmSha256, ChecksumSHA256: aws.String(base64.StdEncoding.EncodeToString(sum)),
	}, s3.WithPresignExpires(ttl))
	if err != nil {
		return Put{}, fmt.Errorf("presign put of %q: %w", key, err)
	}
	put := Put{URL: req.URL, Header: map[string]string{}}
	for name, values := range req.SignedHeader {
		if name = http.CanonicalHeaderKey(name); name != "Host" && name != "Content-Length" {
			put.Header[name] = strings.Join(values, ",")
		}
	}
	return put, nil
}
