package artifacts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"golang.org/x/sync/errgroup"
)

// abortTimeout bounds the clean-up of a failed upload. What it leaves, Sweep finds.
var abortTimeout = 5 * time.Second // a variable for tests

// settleTime is what a server gets to notice that requests were broken off. S3 says
// that an upload aborted while a part is being stored may keep that part; versitygw
// was seen to keep it where nothing lists it.
const settleTime = 200 * time.Millisecond

// lateTime is what a busy server may take to store a part: 0.4 s were too short beside two processes that took all processors.
const lateTime = 5 * time.Second

// multipart sends begin and the rest in parts: begin, send, complete, or abort. cancel ends ctx; a part
// that fails for good calls it so that the reading stops at once.
//
// The SDK's transfer manager is not used: it notices a failed part only after reading
// the next one, whatever that takes, holds buffers per upload without a common bound,
// and logs to the global logger.
func (s *Store) multipart(ctx context.Context, cancel context.CancelCauseFunc, o Copy, begin []byte, rest *source) error {
	created, err := s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: &s.config.Bucket, Key: &o.Key, ContentType: said(o.MediaType), ContentDisposition: said(o.Disposition),
	})
	if err != nil {
		return fmt.Errorf("begin multipart upload: %w", err)
	}
	parts, err := s.sendParts(ctx, cancel, o.Key, *created.UploadId, io.MultiReader(bytes.NewReader(begin), rest))
	if err == nil {
		err = s.complete(ctx, o.Key, created.UploadId, parts, rest.n)
	}
	if err != nil {
		cleanup, stop := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer stop()
		if ctx.Err() == nil {
			return errors.Join(err, s.abort(cleanup, o.Key, *created.UploadId))
		}
		for range 2 { // the second is for a part that came whole, and was stored late
			time.Sleep(settleTime)
			err = errors.Join(err, s.abort(cleanup, o.Key, *created.UploadId))
		}
		s.abortLate(context.WithoutCancel(ctx), o.Key, *created.UploadId)
		return err
	}
	return nil
}

// abortLate aborts an upload once more when a busy server has stored what it was sent. Nobody waits for it.
func (s *Store) abortLate(ctx context.Context, key, id string) {
	s.lateAborts.Go(func() {
		select {
		case <-time.After(lateTime):
		case <-s.closing:
		}
		ctx, stop := context.WithTimeout(ctx, abortTimeout)
		defer stop()
		_ = s.abort(ctx, key, id) // it was aborted before, so most likely there is nothing left
	})
}

// sendParts reads r into part buffers and sends up to Concurrency of them at once. It
// returns when none is under way.
func (s *Store) sendParts(ctx context.Context, cancel context.CancelCauseFunc, key, id string, r io.Reader) ([]types.CompletedPart, error) {
	var group errgroup.Group
	group.SetLimit(s.config.Concurrency)
	var parts []*types.CompletedPart // each goroutine writes its own
	var readErr error
	for readErr == nil {
		buf, err := s.buffers.take(ctx)
		if err != nil {
			readErr = err
			break
		}
		var n int
		n, readErr = fill(r, buf)
		if n == 0 || readErr != nil && !errors.Is(readErr, io.EOF) {
			s.buffers.put(buf)
			break
		}
		part := &types.CompletedPart{PartNumber: aws.Int32(int32(len(parts) + 1))}
		parts = append(parts, part)
		group.Go(func() error {
			defer s.buffers.put(buf)
			out, err := s.client.UploadPart(ctx, &s3.UploadPartInput{
				Bucket: &s.config.Bucket, Key: &key, UploadId: &id, PartNumber: part.PartNumber,
				Body: bytes.NewReader(buf[:n]), ContentLength: aws.Int64(int64(n)),
			})
			if err != nil {
				err = fmt.Errorf("send part %d: %w", *part.PartNumber, err)
				cancel(err)
				return err
			}
			part.ETag = out.ETag
			return nil
		})
	}
	sendErr := group.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // what came first; the others follow from it
	}
	if !errors.Is(readErr, io.EOF) {
		return nil, readErr
	}
	if sendErr != nil {
		return nil, sendErr
	}
	completed := make([]types.CompletedPart, len(parts))
	for i, p := range parts {
		completed[i] = *p
	}
	return completed, nil
}

func (s *Store) complete(ctx context.Context, key string, id *string, parts []types.CompletedPart, size int64) error {
	_, err := s.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &s.config.Bucket, Key: &key, UploadId: id,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	// When the answer of a first try was lost, the second finds no such upload: we
	// alone know its id, so what ended it was our own first try.
	if noSuchUpload(err) {
		head, headErr := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.config.Bucket, Key: &key})
		if headErr == nil && aws.ToInt64(head.ContentLength) == size {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("complete multipart upload: %w", err)
	}
	return nil
}

func (s *Store) abort(ctx context.Context, key, id string) error {
	_, err := s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
		Bucket: &s.config.Bucket, Key: &key, UploadId: &id,
	})
	if err == nil || noSuchUpload(err) {
		return nil
	}
	return fmt.Errorf("abort multipart upload of %q: %w", key, err)
}

// noSuchUpload reports whether that is what the server answered. The SDK has a type for it, but not for each operation.
func noSuchUpload(err error) bool {
	var answered smithy.APIError
	return errors.As(err, &answered) && answered.ErrorCode() == "NoSuchUpload"
}
