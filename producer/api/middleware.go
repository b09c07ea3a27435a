package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/glovebox-run/glovebox/job"
)

const requestIDHeader = "X-Request-Id"

// request is what is known of a request besides itself.
type request struct {
	id     string
	note   auditNote
	answer reservation // what its answer takes
	// goesOn fails once the token that the request came with is no longer good. Only huma's requests of tenants have it.
	goesOn func(context.Context) error
	// byJob: what became of a tenant's job made the answer's status.
	byJob bool
}

type requestKey struct{}

// requestOf is the request that ctx is of.
func requestOf(ctx context.Context) *request {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		return r
	}
	return &request{}
}

func requestID(ctx context.Context) string { return requestOf(ctx).id }

// identify gives each request an id: the client's own, if it is one, or a new one.
func (a *API) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if !validRequestID(id) {
			id = rand.Text()
		}
		if prefer := r.Header.Values("Prefer"); len(prefer) > 1 { // many lines are one list
			r.Header.Set("Prefer", strings.Join(prefer, ", "))
		}
		if r.ContentLength != 0 {
			// Before it answers, net/http reads on in a body that nobody has read. A handler
			// that reads one sets a deadline of its own.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(a.bodyTime)) // else the connection is gone
		}
		h := w.Header()
		h.Set(requestIDHeader, id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
		h.Set("Cache-Control", "no-store")
		known := &request{id: id, answer: reservation{budget: a.answers}}
		defer known.answer.release()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, known)))
	})
}

func validRequestID(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// record logs each request: never its query, its headers or its body, which hold tokens,
// capabilities and code. The line of one that belongs into the audit log says so, and has
// what is written there; Redis, which has it, too, is not waited for.
func (a *API) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		seen := &watchedWriter{ResponseWriter: w, patience: a.answerTime}
		r, traced := a.tracer.Request(r, r.Method == http.MethodPost && path.Dir(r.URL.Path) == "/v1/hooks")
		ctx := r.Context()
		defer func() {
			took := time.Since(start)
			traced(r.Pattern, seen.status)
			if a.observe != nil {
				answered := took
				if seen.status == http.StatusSwitchingProtocols || seen.Header().Get("Content-Type") == eventStream { // lasts as long as a job
					answered = seen.began.Sub(start)
				}
				status := seen.status
				if requestOf(ctx).byJob {
					status = -1
				}
				a.observe(r.Pattern, status, answered)
			}
			attrs := append(make([]slog.Attr, 0, 12), slog.String("method", clip(r.Method)), slog.String("path", clip(r.URL.Path)),
				slog.Int("status", seen.status), slog.Int64("bytes", seen.bytes), slog.Int64("ms", took.Milliseconds()), slog.String("request_id", requestID(ctx)))
			e, audited := a.auditEntry(r, noteOf(ctx), seen)
			if !audited {
				a.log.LogAttrs(ctx, slog.LevelInfo, "request", attrs...)
				return
			}
			for _, e := range append(noteOf(ctx).before(e), e) {
				a.log.LogAttrs(ctx, slog.LevelInfo, "audit", append(slices.Clip(attrs), slog.String("tenant", e.Tenant), slog.String("token_id", e.TokenID),
					slog.String("action", e.Action), slog.String("object", e.Object), slog.String("address", e.Address), slog.String("outcome", e.Outcome))...)
				a.client.NoteAudit(e)
			}
		}()
		next.ServeHTTP(seen, r)
	})
}

// recover answers for a handler that panicked.
func (a *API) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(v)
			}
			a.log.ErrorContext(ctx, "handler panicked", "request_id", requestID(ctx),
				"panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			if seen, ok := w.(*watchedWriter); ok && seen.status != 0 {
				panic(http.ErrAbortHandler) // half an answer must not look like a whole one
			}
			a.refuseAs(w, r, newProblem(job.CodeInternal,
				"Glovebox has a fault; its operator finds it under request id "+requestID(ctx)))
		}()
		next.ServeHTTP(w, r)
	})
}

// watchedWriter notes what was answered, and sends a client away who doesn't take it.
type watchedWriter struct {
	http.ResponseWriter
	patience time.Duration // with a client who pauses, for what is written at once

	status int
	began  time.Time // the answer
	bytes  int64
}

func (w *watchedWriter) WriteHeader(status int) {
	if w.status != 0 {
		return // huma says that the client has left
	}
	w.status, w.began = status, time.Now()
	w.ResponseWriter.WriteHeader(status)
}

func (w *watchedWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status, w.began = http.StatusOK, time.Now()
	}
	n, err := w.write(b)
	w.bytes += int64(n)
	return n, err
}

const (
	// smallWrite has the deadline of the server, or of its handler: the kernel takes it.
	smallWrite = 8 << 10
	// writePiece is what is written at once.
	writePiece = 64 << 10
)

// write writes b in pieces, whose client may pause as the sender of a body may: it earns time
// with what it takes.
func (w *watchedWriter) write(b []byte) (n int, err error) {
	if len(b) <= smallWrite {
		return w.ResponseWriter.Write(b)
	}
	control := http.NewResponseController(w.ResponseWriter)
	for patience := w.patience; err == nil && n < len(b); {
		began := time.Now()
		_ = control.SetWriteDeadline(began.Add(patience)) // else the connection is gone, or is none
		var wrote int
		wrote, err = w.ResponseWriter.Write(b[n:min(n+writePiece, len(b))])
		n += wrote
		patience = max(min(patience+time.Duration(wrote)*time.Second/bodyRate-time.Since(began), w.patience), 0)
	}
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// refuseLargeBody refuses by its announced length a body that the operation would not
// read to its end. One that announces none is read up to the limit.
func (a *API) refuseLargeBody(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	limit := ctx.Operation().MaxBodyBytes
	if limit > 0 && r.ContentLength >= limit {
		w.Header().Set("Connection", "close")
		writeProblem(w, tooLarge(limit))
		return
	}
	next(ctx)
}

func tooLarge(limit int64) problem {
	return newProblem(job.CodeTooLarge,
		fmt.Sprintf("the body is too large; allowed: fewer than %d bytes", limit))
}

// notFound makes problems of what the mux says by itself: no such route, or not with
// this method.
func notFound(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		said := &discarded{header: http.Header{}}
		handler.ServeHTTP(said, r)
		if said.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", said.header.Get("Allow"))
			writeProblem(w, newProblem(job.CodeMethodNotAllowed,
				"this path does not take "+clip(r.Method)+"; allowed: "+strings.TrimSpace(said.header.Get("Allow"))))
			return
		}
		writeProblem(w, newProblem(job.CodeNoRoute,
			"there is no such path in this API; /openapi.json lists them"))
	})
}

// discarded keeps the head of an answer.
type discarded struct {
	header http.Header
	status int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) WriteHeader(status int)      { d.status = status }
func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }
