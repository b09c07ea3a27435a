package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/glovebox-run/glovebox/job"
)

// What bodies and answers may take of the process's memory (ADR 25). A body that isn't small holds what
// it has in bytes while it comes, and to be worked on waits for its turn.
const (
	// smallBody is up to what size a body is small: that of nearly every job.
	smallBody = 64 << 10
	// smallWeight is how many times its size a small one takes: as it came, decoded and
	// encoded again, with what an encoder's buffer grows by.
	smallWeight = 4
	// smallMemory is for small bodies.
	smallMemory = 64 << 20
	// smallTime is how long the sender of a small body may pause: it comes in one go.
	smallTime = 10 * time.Second
	// adminMemory is for bodies of the operator's, who must get through whatever tenants do: for
	// the largest, of which there are two while it grows.
	adminMemory = 2 * recordBody
	// bodiesAtOnce is how many of the largest bodies fit into memory at once, a half of them of one tenant.
	bodiesAtOnce = 4
	// workWeight is what a body takes besides itself while it is decoded and stored.
	workWeight = 3
	// recordBody is how large a body may be that holds no code: terms, a secret, an upload's sum.
	recordBody = 1 << 20
	// answerMemory is for results, lists and events that are read and sent.
	answerMemory = 64 << 20
	// workPatience is how long a body that has come waits for its turn.
	workPatience = 30 * time.Second
	// bodyPatience is how long a body waits for memory before its sender is told to come back.
	bodyPatience = 2 * time.Second
	// memoryRetry is when that is, in seconds.
	memoryRetry = "2"
)

// sentBody is the body of a request to one of huma's routes, which its handler reads: huma
// itself would read it whole into a buffer of twice its size, before anybody could say no.
type sentBody struct {
	w     http.ResponseWriter
	r     *http.Request
	limit int64
}

type sentBodyKey struct{}

// offerBody lets handlers read the body.
func offerBody(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	next(huma.WithValue(ctx, sentBodyKey{}, sentBody{w, r, ctx.Operation().MaxBodyBytes}))
}

// readBody reads and decodes the body of the request that ctx is of. The memory that it takes
// is the value's until done, which may be called more than once.
func readBody[T any](ctx context.Context, a *API) (v T, done func(), err error) {
	sent, _ := ctx.Value(sentBodyKey{}).(sentBody)
	text, done, err := a.bodyText(ctx, sent, callerOf(ctx).tenant)
	if err != nil {
		return v, nil, err
	}
	if v, err = decode[T](sent.r.Header.Get("Content-Type"), text); err != nil {
		done()
	}
	return v, done, err
}

// readOptional is readBody for one that may be left out.
func readOptional[T any](ctx context.Context, a *API) (v T, done func(), err error) {
	sent, _ := ctx.Value(sentBodyKey{}).(sentBody)
	text, done, err := a.bodyText(ctx, sent, callerOf(ctx).tenant)
	if err != nil || len(text) == 0 {
		return v, done, err
	}
	if v, err = decode[T](sent.r.Header.Get("Content-Type"), text); err != nil {
		done()
	}
	return v, done, err
}

// bodyText reads a body of the tenant's. The memory that it takes, also while it is decoded, is held until
// done, which may be called more than once.
func (a *API) bodyText(ctx context.Context, sent sentBody, tenant string) (text []byte, done func(), err error) {
	held := &reservation{budget: a.bodies, tenant: tenant}
	switch length := sent.r.ContentLength; {
	case length >= sent.limit:
		sent.w.Header().Set("Connection", "close") // what is left of it is not read
		return nil, nil, tooLarge(sent.limit)
	case a.accesses[sent.r.Pattern].scope == operator:
		held.budget = a.adminBodies
	case length >= 0 && length <= smallBody:
		held.budget = a.smallBodies
	}
	text, err = a.readHeld(ctx, sent, held)
	if err != nil {
		held.release()
		return nil, nil, err
	}
	work := &reservation{budget: a.work} // nobody's: it is held for moments
	if held.budget == a.bodies {
		err = work.add(ctx, min(workWeight*int64(len(text)), a.work.share), workPatience)
	}
	done = func() { held.release(); work.release() }
	if err != nil {
		done()
		return nil, nil, memoryProblem(err)
	}
	return text, done, nil
}

// readHeld reads a body into memory that held has taken before.
func (a *API) readHeld(ctx context.Context, sent sentBody, held *reservation) ([]byte, error) {
	control := http.NewResponseController(sent.w)
	body := &patientBody{r: sent.r.Body, control: control, patience: a.bodyTime, most: 5 * a.bodyTime}
	if held.budget != a.bodies {
		body.patience = min(a.bodyTime, a.smallTime)
		body.most = body.patience
	}
	text, err := a.readGrowing(ctx, sent, body, held)
	if err != nil {
		sent.w.Header().Set("Connection", "close") // what is left of it is not read
		return nil, a.bodyFault(err, sent.limit)
	}
	// The answer has its own time, however long the body took.
	_ = control.SetWriteDeadline(time.Now().Add(a.maxWait + answerTime)) // else the connection is gone
	return text, nil
}

// readGrowing reads the body to its end.
func (a *API) readGrowing(ctx context.Context, sent sentBody, body io.Reader, held *reservation) ([]byte, error) {
	announced := sent.r.ContentLength
	weight := int64(1)
	if held.budget == a.smallBodies {
		weight = smallWeight
	}
	size := announced
	if announced < 0 {
		size = smallBody
	}
	if err := held.add(ctx, weight*size, bodyPatience); err != nil {
		return nil, err
	}
	text := make([]byte, 0, size)
	for {
		for len(text) < cap(text) {
			n, err := body.Read(text[len(text):cap(text)])
			text = text[:len(text)+n]
			if errors.Is(err, io.EOF) {
				return text, nil
			}
			if err != nil {
				return nil, err
			}
		}
		switch {
		case announced >= 0:
			return text, nil
		case int64(len(text)) >= sent.limit:
			return nil, &http.MaxBytesError{Limit: sent.limit}
		}
		// For a moment there are two of it.
		grown := min(2*int64(cap(text)), sent.limit)
		if err := held.add(ctx, grown, bodyPatience); err != nil {
			return nil, err
		}
		before := text
		text = append(make([]byte, 0, grown), before...)
		held.give(int64(cap(before)))
	}
}

// bodyFault says why a body could not be read.
func (a *API) bodyFault(err error, limit int64) error {
	var tooMuch *http.MaxBytesError
	switch {
	case errors.As(err, &tooMuch):
		return tooLarge(limit)
	case errors.Is(err, errImpatient):
		return newProblem(job.CodeTimeout, "the body came too slowly")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return malformed("the body ended before its announced end")
	}
	return memoryProblem(err)
}

// memoryProblem tells a sender for whose body there is no memory when to come back.
func memoryProblem(err error) error {
	retry := http.Header{"Retry-After": {memoryRetry}}
	switch {
	case errors.Is(err, errShareFull):
		return huma.ErrorWithHeaders(newProblem(job.CodeRateLimited, errShareFull.Error()), retry)
	case errors.Is(err, errMemoryFull):
		return huma.ErrorWithHeaders(newProblem(job.CodeUnavailable, errMemoryFull.Error()), retry)
	case err != nil:
		return fmt.Errorf("read body: %w", err)
	}
	return nil
}
