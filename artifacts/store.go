package artifacts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/glovebox-run/glovebox/internal/await"
)

// What callers decide by.
var (
	// ErrNotFound means that there is no object of that key.
	ErrNotFound = errors.New("object not found")
	// ErrTooLarge means that there were more bytes than the caller's limit.
	ErrTooLarge = errors.New("larger than the limit")
)

// hashMetadata is where a small object carries its SHA-256.
const hashMetadata = "sha256"

// Object is something in the bucket.
type Object struct {
	Key  string
	Size int64
	// SHA256 in hex. Always set by an upload. A reader finds it for objects that were
	// put in one piece only: S3 takes metadata before the first part, when nobody
	// knows the hash. A job's result has it for every artifact.
	SHA256    string
	MediaType string
	// Kind is job.KindChart or job.KindFile.
	Kind string
}

// Store is one bucket. It is safe for concurrent use.
type Store struct {
	config    Config
	client    *s3.Client
	anonymous *s3.Client // without credentials, to see that it is refused
	presign   *s3.PresignClient
	transport *http.Transport

	versions versioning
	buffers  *bufferPool
	heads    sync.Pool

	lateAborts sync.WaitGroup
	closing    chan struct{}
	close      func() // closing, once
}

// Open returns a Store. It does not talk to the bucket: [Store.Check] does.
func Open(ctx context.Context, c Config) (*Store, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("open bucket %q: %w: %w", c.Bucket, await.ErrSettings, err)
	}
	s := &Store{config: c, transport: newTransport(c.StallTimeout), closing: make(chan struct{})}
	s.close = sync.OnceFunc(func() { close(s.closing) })
	client := &http.Client{
		Transport:     s.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	creds, err := provider(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("open bucket %q: %w", c.Bucket, err)
	}
	options := s3.Options{
		Region:       c.Region,
		UsePathStyle: c.PathStyle,
		HTTPClient:   client,
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts = c.MaxAttempts
			o.MaxBackoff = 4 * time.Second
		}),
		// Each request's body is hashed by its signature, which the server checks: that
		// is as good as the checksum trailers, and older S3-compatible servers know it.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	}
	at := func(endpoint string, creds aws.CredentialsProvider) *s3.Client {
		o := options
		o.Credentials = creds
		if endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
		return s3.New(o)
	}
	s.anonymous = at(c.Endpoint, aws.AnonymousCredentials{})
	s.presign = s3.NewPresignClient(at(c.PublicEndpoint, creds))
	if c.Observe != nil { // not of what is meant to be refused, or only signed
		options.APIOptions = append(options.APIOptions, observe(c.Observe))
	}
	s.client = at(c.Endpoint, creds)

	s.buffers = newBufferPool(c.PartBytes, c.MemoryBytes)
	s.heads.New = func() any { b := make([]byte, headBytes); return &b }
	return s, nil
}

// Close ends idle connections, once what is left of uploads that were canceled just now is gone: that takes 5 s where the bucket is
// away. Nothing may be under way.
func (s *Store) Close() {
	s.close()
	s.lateAborts.Wait()
	s.transport.CloseIdleConnections()
}

func provider(ctx context.Context, c Config) (aws.CredentialsProvider, error) {
	if c.AccessKey != "" {
		return credentials.NewStaticCredentialsProvider(c.AccessKey, c.SecretKey, ""), nil
	}
	// A client of the SDK's own, as it gives no other one the certificates of AWS_CA_BUNDLE. It is asked now and then: no connection waits.
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.DisableKeepAlives = true })
	chain, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(c.Region), awsconfig.WithHTTPClient(client))
	if err != nil {
		return nil, fmt.Errorf("find credentials: %w", err)
	}
	return chain.Credentials, nil
}

// PutBytes stores data under key, replacing what is there, all or nothing.
func (s *Store) PutBytes(ctx context.Context, key, mediaType string, data []byte) (Object, error) {
	return s.putBytes(ctx, key, mediaType, data)
}

func (s *Store) putBytes(ctx context.Context, key, mediaType string, data []byte, options ...func(*s3.Options)) (Object, error) {
	sum := sha256.Sum256(data)
	o := Object{Key: key, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:]), MediaType: mediaType, Kind: Kind(mediaType)}
	return o, s.put(ctx, Copy{o, disposition(key, o.MediaType)}, data, options...)
}

func (s *Store) put(ctx context.Context, o Copy, data []byte, options ...func(*s3.Options)) error {
	in := &s3.PutObjectInput{
		Bucket: &s.config.Bucket, Key: &o.Key, Body: bytes.NewReader(data), ContentLength: &o.Size,
		ContentType: said(o.MediaType), ContentDisposition: said(o.Disposition),
	}
	if o.SHA256 != "" { // none was noted where clients put an upload, or it came in parts
		in.Metadata = map[string]string{hashMetadata: o.SHA256}
	}
	_, err := s.client.PutObject(ctx, in, options...)
	if err != nil {
		return fmt.Errorf("put object %q: %w", o.Key, err)
	}
	return nil
}

// said is nil for what is not said.
func said(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Get opens an object, or fails with [ErrNotFound]. The caller closes the body.
func (s *Store) Get(ctx context.Context, key string) (io.ReadCloser, Object, error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.config.Bucket, Key: &key})
	if err != nil {
		return nil, Object{}, fmt.Errorf("get object %q: %w", key, notFound(err))
	}
	o, err := objectOf(key, out.ContentLength, out.ContentType, out.Metadata)
	if err != nil {
		return nil, Object{}, errors.Join(fmt.Errorf("get object %q: %w", key, err), out.Body.Close())
	}
	return out.Body, o, nil
}

// Head tells of an object without reading it, or fails with [ErrNotFound].
func (s *Store) Head(ctx context.Context, key string) (Object, error) {
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.config.Bucket, Key: &key})
	if err != nil {
		return Object{}, fmt.Errorf("look at object %q: %w", key, notFound(err))
	}
	o, err := objectOf(key, out.ContentLength, out.ContentType, out.Metadata)
	if err != nil {
		return Object{}, fmt.Errorf("look at object %q: %w", key, err)
	}
	return o, nil
}

// objectOf is what an answer tells of an object. A length that a gateway leaves out would look like that of another object.
func objectOf(key string, length *int64, mediaType *string, metadata map[string]string) (Object, error) {
	if length == nil {
		return Object{}, errors.New("the answer has no Content-Length, which S3 always sends: a gateway before the bucket has left it out")
	}
	m := aws.ToString(mediaType)
	return Object{Key: key, Size: *length, SHA256: metadata[hashMetadata], MediaType: m, Kind: Kind(m)}, nil
}

// GetBytes returns an object of at most limit bytes. It fails with [ErrNotFound] or
// [ErrTooLarge].
func (s *Store) GetBytes(ctx context.Context, key string, limit int64) ([]byte, error) {
	return s.GetHeld(ctx, key, limit, func(int64) error { return nil })
}

// GetHeld is GetBytes for a caller that takes memory before the object is read: hold is told its size,
// and nothing is read if it fails.
func (s *Store) GetHeld(ctx context.Context, key string, limit int64, hold func(size int64) error) ([]byte, error) {
	body, o, err := s.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	if o.Size > limit {
		return nil, fmt.Errorf("get object %q: %w: %d bytes of at most %d", key, ErrTooLarge, o.Size, limit)
	}
	if err := hold(o.Size); err != nil {
		return nil, err
	}
	read := bytes.NewBuffer(make([]byte, 0, o.Size+bytes.MinRead)) // which doesn't grow
	_, err = read.ReadFrom(io.LimitReader(body, limit+1))
	data := read.Bytes()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read object %q: %w", key, err)
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("get object %q: %w of %d bytes", key, ErrTooLarge, limit)
	case int64(len(data)) != o.Size:
		return nil, fmt.Errorf("read object %q: %w: %d bytes of %d", key, io.ErrUnexpectedEOF, len(data), o.Size)
	}
	return data, nil
}

// notFound adds [ErrNotFound] to an error by which S3 says so.
func notFound(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) && (api.ErrorCode() == "NoSuchKey" || api.ErrorCode() == "NotFound") {
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return err
}
