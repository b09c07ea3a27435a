package api

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"
)

// sendAll sends values as JSON Lines, as they are read: an answer that is cut off has no proper end.
func sendAll[T any](out *lasting, all iter.Seq2[T, error]) {
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	for v, err := range all {
		if err != nil {
			out.fail(err)
			return
		}
		if err := lines.Encode(v); err != nil {
			return // the client has left
		}
	}
	out.begin()
}

// lasting is an answer that is written in parts, each as it is read.
type lasting struct {
	ctx       context.Context //nolint:containedctx // of the request
	api       *API
	w         http.ResponseWriter
	r         *http.Request
	caller    caller
	what      string // it is, for the log
	mediaType string
	begun     bool
	looked    time.Time // when the token was looked up
}

// answerLasting has send write an answer that may take up to resultsTime. A tenant has few such answers at once: where it has them, this one is refused.
func (a *API) answerLasting(w http.ResponseWriter, r *http.Request, c caller, what, mediaType string, send func(context.Context, *lasting)) {
	release, err := a.readings.acquire(c.tenant)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	defer release()
	ctx, cancel := context.WithTimeout(r.Context(), resultsTime)
	defer cancel()
	send(ctx, &lasting{ctx: ctx, api: a, w: w, r: r, caller: c, what: what, mediaType: mediaType, looked: time.Now()})
}

// begin sends the answer's head, once.
func (l *lasting) begin() {
	if l.begun {
		return
	}
	l.begun = true
	l.w.Header().Set("Content-Type", l.mediaType)
	l.w.Header().Set("Referrer-Policy", "no-referrer")
	l.w.WriteHeader(http.StatusOK)
}

// fail answers with a problem, or where the answer has begun cuts it off.
func (l *lasting) fail(err error) {
	if !l.begun {
		l.api.writeError(l.w, l.r, err)
		return
	}
	l.api.log.WarnContext(l.ctx, "an answer was cut off", "answer", l.what, "path", l.r.URL.Path, "request_id", requestID(l.r.Context()), "error", err)
	panic(http.ErrAbortHandler)
}

// Write sends a part, as long as the caller may read it.
func (l *lasting) Write(p []byte) (int, error) {
	l.begin()
	if time.Since(l.looked) >= l.api.look {
		if err := l.api.goesOn(l.ctx, l.r, l.caller); err != nil {
			l.api.log.InfoContext(l.ctx, "an answer was cut off", "answer", l.what, "path", l.r.URL.Path, "request_id", requestID(l.ctx), "error", err)
			panic(http.ErrAbortHandler)
		}
		l.looked = time.Now()
	}
	if err := http.NewResponseController(l.w).SetWriteDeadline(time.Now().Add(answerTime)); err != nil {
		panic(http.ErrAbortHandler)
	}
	return l.w.Write(p)
}
