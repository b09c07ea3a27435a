package artifacts

import (
	"errors"
	"fmt"
	"net/url"
	"time"
)

const (
	// minPartBytes is the least that S3 takes for any part but the last.
	minPartBytes = 5 << 20
	// maxParts is the most parts that S3 puts together to one object.
	maxParts = 10_000
)

// Config says where the bucket is and what uploads may use.
type Config struct {
	// Endpoint is the URL of an S3-compatible server. Defaults to AWS S3 in Region.
	Endpoint string
	// PublicEndpoint is what presigned URLs point to, where clients reach the server
	// by another name than Glovebox does. Defaults to Endpoint.
	PublicEndpoint string
	// Region is signed into each request. Defaults to "us-east-1".
	Region string
	// Bucket holds everything. It has no default.
	Bucket string
	// AccessKey and SecretKey go together. Both empty mean AWS's default chain:
	// environment, shared files, container, instance role.
	AccessKey, SecretKey string
	// PathStyle puts the bucket into the path rather than the host name, as most
	// servers but AWS need it. Defaults to false.
	PathStyle bool

	// PartBytes is the size of a part of a multipart upload, and so the largest object
	// is 10,000 times this. Defaults to 5 MiB, the least that S3 takes.
	PartBytes int64
	// Concurrency is how many parts of one upload are under way at once; one more is
	// being filled. Defaults to 2.
	Concurrency int
	// MemoryBytes bounds the parts of all uploads of the Store together; uploads wait
	// for each other beyond it. Defaults to 50 MiB.
	MemoryBytes int64
	// MaxAttempts is how often a request is tried before an upload fails. Defaults to 6.
	MaxAttempts int
	// StallTimeout ends a connection on which nothing moves in either direction, so
	// that a server that hangs can't hold a sandbox for ever. Defaults to 60 s.
	StallTimeout time.Duration
	// Observe, if set, is told of each attempt at a request, and must not wait for
	// anything.
	Observe func(Request)
}

func (c Config) withDefaults() Config {
	if c.Region == "" {
		c.Region = "us-east-1"
	}
	if c.PublicEndpoint == "" {
		c.PublicEndpoint = c.Endpoint
	}
	if c.PartBytes == 0 {
		c.PartBytes = minPartBytes
	}
	if c.Concurrency == 0 {
		c.Concurrency = 2
	}
	if c.MemoryBytes == 0 {
		c.MemoryBytes = max(50<<20, c.PartBytes)
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 6
	}
	if c.StallTimeout == 0 {
		c.StallTimeout = time.Minute
	}
	return c
}

func (c Config) check() error {
	var errs []error
	if c.Bucket == "" {
		errs = append(errs, errors.New("bucket is empty"))
	}
	for _, e := range []string{c.Endpoint, c.PublicEndpoint} {
		if u, err := url.Parse(e); e != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			errs = append(errs, fmt.Errorf("endpoint %q is no http or https URL", e))
		}
	}
	if (c.AccessKey == "") != (c.SecretKey == "") {
		errs = append(errs, errors.New("access key and secret key go together: give both or neither"))
	}
	if c.PartBytes < minPartBytes {
		errs = append(errs, fmt.Errorf("part size %d is below S3's least of %d bytes", c.PartBytes, int64(minPartBytes)))
	}
	if c.MemoryBytes < c.PartBytes {
		errs = append(errs, fmt.Errorf("memory of %d bytes does not hold one part of %d", c.MemoryBytes, c.PartBytes))
	}
	if c.Concurrency < 1 || c.MaxAttempts < 1 || c.StallTimeout < 0 {
		errs = append(errs, errors.New("concurrency and attempts are at least 1, the stall timeout is not negative"))
	}
	return errors.Join(errs...)
}
