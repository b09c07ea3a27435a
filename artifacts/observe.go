package artifacts

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Request is one attempt at a request to the bucket, as Config.Observe is told of it.
type Request struct {
	// Operation as S3 calls it: "PutObject".
	Operation string
	// Took is up to the head of the answer; the body of an upload is in it.
	Took time.Duration
	// Failure is "" where S3 did as asked, or said that there is no such object.
	Failure Failure
}

// Failure is the class of what went wrong with a request.
type Failure string

// The classes.
const (
	FailTimeout    Failure = "timeout"    // no answer in time
	FailConnection Failure = "connection" // no way to the server, or it broke
	FailThrottled  Failure = "throttled"  // 429 or 503: too much, for now
	FailServer     Failure = "server"     // any other 5xx
	FailRefused    Failure = "refused"    // any other answer: credentials, the bucket's name
)

// observe makes the SDK tell of each attempt.
func observe(tell func(Request)) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		// First of the last step: inside of the retries, outside of what reads the answer.
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("GloveboxObserve",
			func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
				began := time.Now()
				out, metadata, err := next.HandleDeserialize(ctx, in)
				tell(Request{awsmiddleware.GetOperationName(ctx), time.Since(began), failure(err)})
				return out, metadata, err
			}), middleware.Before)
	}
}

func failure(err error) Failure {
	var answer *smithyhttp.ResponseError
	var network net.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled): // the caller has left
		return ""
	case errors.As(err, &answer) && answer.Response != nil && answer.HTTPStatusCode() > 0: // 0 where there was none
		switch status := answer.HTTPStatusCode(); {
		case status == http.StatusNotFound && errors.Is(notFound(err), ErrNotFound):
			return ""
		case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
			return FailThrottled
		case status >= http.StatusInternalServerError:
			return FailServer
		}
		return FailRefused
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return FailTimeout
	}
	return FailConnection
}
