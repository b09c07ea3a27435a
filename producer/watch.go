package producer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// Watcher tells what happens to jobs while it happens. It is safe for concurrent use.
type Watcher interface {
	// Watch tells what happens to the job: its status, what it prints and makes, and last
	// its result; then the sequence ends. It begins with what the job printed before, as
	// far as that is kept, or, with the ID of an event, after that one. An error is the
	// last, too: job.ErrNotFound, or ctx's.
	Watch(ctx context.Context, id, after string) iter.Seq2[Event, error]
}

var _ Watcher = (*Client)(nil)

const (
	// silence is how long an API may send nothing before it is taken for lost: it sends
	// a comment every 15 s.
	silence = 50 * time.Second
	// minWatch keeps a Watch from spinning when an API ends each connection without an
	// event, as one that shuts down does.
	minWatch = time.Second
)

// Watch is [Watcher.Watch]. It comes back by itself when the connection breaks, and bears
// with an API that is away for up to 30 s.
func (c *Client) Watch(ctx context.Context, id, after string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		w := &watcher{client: c, id: id, after: after, yield: yield}
		if err := w.watch(ctx); err != nil {
			yield(Event{}, err)
		}
	}
}

// watcher reads one job's events, over as many connections as it takes.
type watcher struct {
	client *Client
	id     string
	after  string
	yield  func(Event, error) bool
	told   Event     // the last EventStatus
	heard  time.Time // when the API said something last
	// connected: the API has sent events before.
	connected bool
}

// errOver ends the watch: the result was told, or whoever watches has left.
var errOver = errors.New("there is nothing more to tell")

func (w *watcher) watch(ctx context.Context) error {
	if !isJobID(w.id) {
		return job.ErrNotFound // "..", say, would mean another URL
	}
	if err := CheckEventID(w.after); err != nil {
		return err
	}
	w.heard = time.Now()
	for {
		began, after := time.Now(), w.after
		err := w.connection(ctx)
		switch {
		case errors.Is(err, errOver):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !Temporary(err) && !w.full(err), time.Since(w.heard) > outage:
			return err
		}
		if w.after != after {
			continue
		}
		select {
		case <-time.After(minWatch - time.Since(began)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// full reports whether the API has no place for a watch that it had one for: that of the
// connection before, which it has not given up yet.
func (w *watcher) full(err error) bool {
	return w.connected && job.CodeOf(err) == job.CodeTooManyWatchers
}

// connection tells what one connection brings. It fails with errOver at the watch's end.
func (w *watcher) connection(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.client.base+JobPath(w.id)+"/events", http.NoBody)
	if err != nil {
		return fmt.Errorf("ask the API: %w", err)
	}
	req.Header.Set("Accept", eventStream)
	if w.after != "" {
		req.Header.Set("Last-Event-ID", w.after)
	}
	res, err := w.client.ask(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNoContent {
		return errOver
	}
	if mediaType, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); mediaType != eventStream {
		return &job.Error{Code: job.CodeInternal, Message: fmt.Sprintf("%s answered %.60q, and not events as Glovebox's API does: is the URL right?", w.client.base, mediaType)}
	}
	w.heard, w.connected = time.Now(), true
	lost := time.AfterFunc(silence, func() { cancel(errors.New("the API has fallen silent")) })
	defer lost.Stop()
	events := newSSEReader(res.Body)
	for {
		e, err := events.next()
		if errors.Is(err, errSSETooLong) { // nor would another connection bring a shorter one
			return &job.Error{Code: job.CodeInternal, Message: err.Error()}
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return fmt.Errorf("read events of job %s: %w", w.id, errors.Join(err, io.ErrUnexpectedEOF))
		}
		w.heard = time.Now()
		lost.Reset(silence)
		if err := w.take(e); err != nil {
			return err
		}
	}
}

// eventStream is the media type of server-sent events.
const eventStream = "text/event-stream"

// take tells one event.
func (w *watcher) take(s sseEvent) error {
	if s.data == nil {
		return nil
	}
	e := Event{ID: s.id, Type: EventType(s.name)}
	if err := e.unmarshalData(s.data); err != nil {
		// No connection would bring another.
		return &job.Error{Code: job.CodeInternal, Message: err.Error()}
	}
	begins := w.after == ""
	if e.ID != "" {
		w.after = e.ID
	}
	if e.Type == EventStatus {
		// Each connection begins with how things are. The first event that has an ID may say
		// it again: one of a job that ended before the second connection does.
		if (e.ID == "" || begins) && e.Status == w.told.Status && e.Attempt == w.told.Attempt {
			return nil
		}
		w.told = e
	}
	if !w.yield(e, nil) || e.Type == EventResult {
		return errOver
	}
	return nil
}
