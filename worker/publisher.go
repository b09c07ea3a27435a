package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// batchInterval is the shortest time between two batches of events.
	batchInterval = 50 * time.Millisecond
	// maxEventBytes is the most output in an event, maxBatchEvents the most events in a batch.
	maxEventBytes  = 32 << 10
	maxBatchEvents = 8
	// publishTimeout is how long Redis may take for a batch, publishRetry the delay after one
	// that failed.
	publishTimeout = time.Second
	publishRetry   = time.Second
)

// eventPublisher publishes what a job does while it runs, for its watchers. It reads the
// captures, at its own pace and in a goroutine of its own. So a late watcher misses nothing, and
// a Redis that is slow or away holds nothing up and costs no memory. Until there is a watcher,
// there is no goroutine, and a write costs one read of a flag.
type eventPublisher struct {
	publish func(ctx context.Context, first int, events []record.Event) error
	attempt int
	log     *slog.Logger

	started    atomic.Bool
	wake       chan struct{} // there may be something to publish
	finishing  chan struct{} // closed when nothing more will come
	done       chan struct{} // closed when the goroutine has ended, if it was started
	failing    atomic.Bool   // the last batch could not be published
	startOnce  sync.Once
	finishOnce sync.Once

	mu             sync.Mutex
	stdout, stderr *capture     // nil until there is a program
	compiled       *job.Compile // nil until the compile step has ended
	artifacts      []job.Artifact
	shown          []job.Shown

	// What only the goroutine knows.
	next          int // Seq of the next event
	offsets       map[record.EventType]int64
	sentCompiled  bool
	sentArtifacts int            // artifacts published
	sentShown     int            // and results
	pending       []record.Event // published, or not: no answer yet
	more          bool           // there was more than the last batch held
	endSent       bool           // EventEnd is published
}

func (w *Worker) eventPublisher(j record.Record) *eventPublisher {
	return newEventPublisher(func(ctx context.Context, first int, events []record.Event) error {
		return w.Records.Publish(ctx, j, first, events)
	}, j.Attempts, w.Log.With("job_id", j.ID, "epoch", j.Epoch))
}

func newEventPublisher(publish func(ctx context.Context, first int, events []record.Event) error, attempt int, log *slog.Logger) *eventPublisher {
	return &eventPublisher{
		publish: publish, attempt: attempt, log: log,
		wake: make(chan struct{}, 1), finishing: make(chan struct{}), done: make(chan struct{}),
		next: 1, offsets: map[record.EventType]int64{},
	}
}

// start starts to publish, from the beginning of the run on.
func (l *eventPublisher) start(running *sync.WaitGroup) {
	l.startOnce.Do(func() {
		l.started.Store(true)
		running.Go(l.run)
	})
}

// follow sets the captures that output is read from.
func (l *eventPublisher) follow(stdout, stderr *capture) {
	l.mu.Lock()
	l.stdout, l.stderr = stdout, stderr
	l.mu.Unlock()
}

// notify says that there is something to publish.
func (l *eventPublisher) notify() {
	if !l.started.Load() {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// setCompiled publishes what the compile step came to, or the beginning of it: the result has all.
func (l *eventPublisher) setCompiled(c job.Compile) {
	c.Output = job.Clip(c.Output, maxEventBytes)
	l.mu.Lock()
	l.compiled = &c
	l.mu.Unlock()
	l.notify()
}

// addArtifact publishes one more artifact.
func (l *eventPublisher) addArtifact(a job.Artifact) {
	a.URL = ""
	l.mu.Lock()
	l.artifacts = append(l.artifacts, a)
	l.mu.Unlock()
	l.notify()
}

// addShown publishes what an execution showed. Its artifacts are there by then.
func (l *eventPublisher) addShown(results []job.Shown) {
	l.mu.Lock()
	l.shown = append(l.shown, results...)
	l.mu.Unlock()
	l.notify()
}

// finish says that nothing more will come, and waits until everything is published: the
// job's result comes after its output. It does not wait for a Redis that doesn't answer.
func (l *eventPublisher) finish() {
	l.finishOnce.Do(func() {
		l.startOnce.Do(func() {}) // too late to start
		close(l.finishing)
	})
	if !l.started.Load() || l.failing.Load() {
		return
	}
	select {
	case <-l.done:
	case <-time.After(publishTimeout):
	}
}

func (l *eventPublisher) run() {
	defer close(l.done)
	ctx := context.Background() // the run's own may have ended; what it printed is published anyway
	for {
		err := l.publishBatch(ctx)
		failed := l.failing.Swap(err != nil)
		switch {
		case errors.Is(err, record.ErrStale), l.endSent:
			return
		case err != nil:
			if !failed {
				l.log.Warn("events of a job that is watched could not be published, trying again", "error", err)
			}
			select {
			case <-time.After(publishRetry):
			case <-l.finishing:
				return // watchers see that the end is missing
			}
		default:
			l.waitForMore()
		}
	}
}

// waitForMore waits for the next batch's time, and then until there is something to publish.
func (l *eventPublisher) waitForMore() {
	select {
	case <-time.After(batchInterval):
	case <-l.finishing:
		return
	}
	if l.more {
		return
	}
	select {
	case <-l.wake:
	case <-l.finishing:
	}
}

// publishBatch publishes a batch. One that may or may not have arrived is published again as it
// is.
func (l *eventPublisher) publishBatch(ctx context.Context) (err error) {
	if len(l.pending) == 0 {
		if l.pending, err = l.nextBatch(); err != nil {
			return err
		}
	}
	l.more = len(l.pending) >= maxBatchEvents
	if len(l.pending) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if err := l.publish(ctx, l.next, l.pending); err != nil {
		return err
	}
	l.next += len(l.pending)
	l.endSent = l.pending[len(l.pending)-1].Type == record.EventEnd
	l.pending = nil
	return nil
}

// nextBatch returns what has happened since the last one.
func (l *eventPublisher) nextBatch() ([]record.Event, error) {
	ended := false
	select {
	case <-l.finishing: // read before the captures: nothing is written after it
		ended = true
	default:
	}
	l.mu.Lock()
	stdout, stderr, artifacts, shown := l.stdout, l.stderr, l.artifacts[l.sentArtifacts:], l.shown[l.sentShown:]
	l.mu.Unlock()
	var events []record.Event
	add := func(t record.EventType, offset int64, data []byte) {
		events = append(events, record.Event{Type: t, Offset: offset, Data: data})
	}
	if l.next == 1 {
		if err := addJSON(add, record.EventStatus, record.StatusChange{Status: job.Running, Attempt: l.attempt}); err != nil {
			return nil, err
		}
	}
	beforeOutput := len(events)
	for len(events) < maxBatchEvents {
		before := len(events)
		for _, stream := range []struct {
			t record.EventType
			c *capture
		}{{record.EventStdout, stdout}, {record.EventStderr, stderr}} {
			offset := l.offsets[stream.t]
			p, err := stream.c.from(offset, maxEventBytes)
			if err != nil {
				return nil, err
			}
			if p = wholeCharacters(p, ended); len(p) > 0 {
				add(stream.t, offset, p)
				l.offsets[stream.t] += int64(len(p))
			}
		}
		if len(events) == before {
			break
		}
	}
	l.mu.Lock()
	compiled := l.compiled // there before any output is, so it is looked at behind that
	l.mu.Unlock()
	if compiled != nil && !l.sentCompiled {
		b, err := json.Marshal(compiled)
		if err != nil {
			return nil, fmt.Errorf("encode compiled event: %w", err)
		}
		l.sentCompiled = true
		events = slices.Insert(events, beforeOutput, record.Event{Type: record.EventCompiled, Data: b})
	}
	for len(events) < maxBatchEvents && len(artifacts) > 0 {
		if err := addJSON(add, record.EventArtifact, artifacts[0]); err != nil {
			return nil, err
		}
		artifacts = artifacts[1:]
		l.sentArtifacts++
	}
	for len(events) < maxBatchEvents && len(shown) > 0 {
		if err := addJSON(add, record.EventDisplay, shown[0]); err != nil {
			return nil, err
		}
		shown = shown[1:]
		l.sentShown++
	}
	if ended && len(events) < maxBatchEvents {
		add(record.EventEnd, 0, nil)
	}
	return events, nil
}

func addJSON(add func(record.EventType, int64, []byte), t record.EventType, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s event: %w", t, err)
	}
	add(t, 0, b)
	return nil
}

// wholeCharacters returns p without an incomplete character at its end, unless that is the end of all.
func wholeCharacters(p []byte, ended bool) []byte {
	if ended && len(p) < maxEventBytes {
		return p
	}
	return job.WholeCharacters(p)
}
