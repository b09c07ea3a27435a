package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// liveInterval is the least time between two batches of events.
	liveInterval = 50 * time.Millisecond
	// liveChunk is the most output in an event, liveBatch the most events in a batch.
	liveChunk = 32 << 10
	liveBatch = 8
	// liveTimeout is how long Redis may take for a batch, liveRetry what is waited after
	// one that failed.
	liveTimeout = time.Second
	liveRetry   = time.Second
)

// live publishes what a job does while it runs, for those who watch it. It reads what the
// captures keep, at its own pace and in a goroutine of its own: so somebody who comes late
// misses nothing, and a Redis that is slow or away holds nothing up and costs no memory.
// Until somebody watches there is no goroutine, and a write costs one look at a flag.
type live struct {
	publish func(ctx context.Context, first int, events []record.Event) error
	attempt int
	log     *slog.Logger

	on       atomic.Bool
	news     chan struct{} // there may be something to publish
	ending   chan struct{} // nothing more will come
	stopped  chan struct{} // the goroutine has ended, if it ever began
	failing  atomic.Bool   // the last batch could not be published
	begun    sync.Once
	finished sync.Once

	mu             sync.Mutex
	stdout, stderr *capture // nil until there is a program
	artifacts      []job.Artifact

	// What only the goroutine knows.
	next    int // Seq of the next event
	offsets map[record.EventType]int64
	told    int            // artifacts published
	pending []record.Event // published, or not: no answer yet
	more    bool           // there was more than the last batch held
	over    bool           // EventEnd is published
}

func (w *Worker) live(j record.Job) *live {
	return newLive(func(ctx context.Context, first int, events []record.Event) error {
		return w.Records.Publish(ctx, j, first, events)
	}, j.Attempts, w.Log.With("job_id", j.ID, "epoch", j.Epoch))
}

func newLive(publish func(ctx context.Context, first int, events []record.Event) error, attempt int, log *slog.Logger) *live {
	return &live{
		publish: publish, attempt: attempt, log: log,
		news: make(chan struct{}, 1), ending: make(chan struct{}), stopped: make(chan struct{}),
		next: 1, offsets: map[record.EventType]int64{},
	}
}

// begin starts to publish, from the beginning of the run on.
func (l *live) begin(running *sync.WaitGroup) {
	l.begun.Do(func() {
		l.on.Store(true)
		running.Go(l.run)
	})
}

// follow says where output comes from.
func (l *live) follow(stdout, stderr *capture) {
	l.mu.Lock()
	l.stdout, l.stderr = stdout, stderr
	l.mu.Unlock()
}

// printed says that there is more output.
func (l *live) printed() {
	if !l.on.Load() {
		return
	}
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// stored says that the job has one more artifact.
func (l *live) stored(a job.Artifact) {
	a.URL = ""
	l.mu.Lock()
	l.artifacts = append(l.artifacts, a)
	l.mu.Unlock()
	l.printed()
}

// finish says that nothing more will come, and waits until all of it is published: the
// job's result comes after its output. It does not wait for a Redis that doesn't answer.
func (l *live) finish() {
	l.finished.Do(func() {
		l.begun.Do(func() {}) // too late to begin
		close(l.ending)
	})
	if !l.on.Load() || l.failing.Load() {
		return
	}
	select {
	case <-l.stopped:
	case <-time.After(liveTimeout):
	}
}

func (l *live) run() {
	defer close(l.stopped)
	ctx := context.Background() // the run's own may have ended: what it printed is published all the same
	for {
		err := l.step(ctx)
		failed := l.failing.Swap(err != nil)
		switch {
		case errors.Is(err, record.ErrStale), l.over:
			return
		case err != nil:
			if !failed {
				l.log.Warn("events of a job that is watched could not be published, trying again", "error", err)
			}
			select {
			case <-time.After(liveRetry):
			case <-l.ending:
				return // who watches sees that the end is missing
			}
		default:
			l.rest()
		}
	}
}

// rest waits for a while after a batch, and then until there is something to publish.
func (l *live) rest() {
	select {
	case <-time.After(liveInterval):
	case <-l.ending:
		return
	}
	if l.more {
		return
	}
	select {
	case <-l.news:
	case <-l.ending:
	}
}

// step publishes a batch. One that may or may not have been published is published again
// as it is.
func (l *live) step(ctx context.Context) (err error) {
	if len(l.pending) == 0 {
		if l.pending, err = l.batch(); err != nil {
			return err
		}
	}
	l.more = len(l.pending) >= liveBatch
	if len(l.pending) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	if err := l.publish(ctx, l.next, l.pending); err != nil {
		return err
	}
	l.next += len(l.pending)
	l.over = l.pending[len(l.pending)-1].Type == record.EventEnd
	l.pending = nil
	return nil
}

// batch is what has happened since the last one.
func (l *live) batch() ([]record.Event, error) {
	ended := false
	select {
	case <-l.ending: // asked before the captures are: nothing is written after it
		ended = true
	default:
	}
	l.mu.Lock()
	stdout, stderr, artifacts := l.stdout, l.stderr, l.artifacts[l.told:]
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
	for len(events) < liveBatch {
		before := len(events)
		for _, stream := range []struct {
			t record.EventType
			c *capture
		}{{record.EventStdout, stdout}, {record.EventStderr, stderr}} {
			offset := l.offsets[stream.t]
			p, err := stream.c.from(offset, liveChunk)
			if err != nil {
				return nil, err
			}
			if p = characters(p, ended); len(p) > 0 {
				add(stream.t, offset, p)
				l.offsets[stream.t] += int64(len(p))
			}
		}
		if len(events) == before {
			break
		}
	}
	for len(events) < liveBatch && len(artifacts) > 0 {
		if err := addJSON(add, record.EventArtifact, artifacts[0]); err != nil {
			return nil, err
		}
		artifacts = artifacts[1:]
		l.told++
	}
	if ended && len(events) < liveBatch {
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

// characters is p without a character that may go on after it.
func characters(p []byte, ended bool) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if last := p[len(p)-i:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) || ended && len(p) < liveChunk {
				return p
			}
			return p[:len(p)-i]
		}
	}
	return p
}
