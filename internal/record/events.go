package record

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// Event is an entry of a job's stream of events: what it prints and makes, kept for a
// while for those who watch it. docs/adr/0009-watching.md says how.
type Event struct {
	// ID is Redis's own and grows; what is read next is what comes after it.
	ID   string
	Type EventType
	// Epoch is the try at the job that the event is of, and Seq counts its events: 1, 2, …
	// One that is missing was dropped. That the job waits for the epoch has Seq 0.
	Epoch, Seq int
	// Offset is where Data is in its stream, for output.
	Offset int64
	Data   []byte
}

// EventType says what an Event's Data is.
type EventType string

// The types of events.
const (
	EventStatus   EventType = "status"   // a StatusChange as JSON
	EventStdout   EventType = "stdout"   // bytes that the program wrote
	EventStderr   EventType = "stderr"   //
	EventArtifact EventType = "artifact" // a job.Artifact as JSON, without URL
	EventDisplay  EventType = "display"  // a job.Shown as JSON
	EventCompiled EventType = "compiled" // a job.Compile as JSON
	EventEnd      EventType = "end"      // nothing: the epoch has no more events
)

// StatusChange is what a job became.
type StatusChange struct {
	Status  job.Status `json:"status"`
	Attempt int        `json:"attempt"`
}

const (
	// maxEventBytes bounds a job's stream; the oldest events go. Each event counts for
	// eventCost bytes beside its data.
	maxEventBytes = 1 << 20
	eventCost     = 128
	// eventLife is how long a stream outlives its job's end, for a watcher who has lost
	// the connection or comes late; the result has all that it said.
	eventLife = time.Minute
	// unwatchedLife is that of one that nobody watches as its job ends: however many such
	// jobs a tenant runs, their streams are not to fill Redis.
	unwatchedLife = 10 * time.Second
	// eventPatience is how long a stream may go without a new event before it is
	// forgotten, should its job never end.
	eventPatience = 24 * time.Hour
)

// Publish appends events of the epoch and worker that j names to its stream. The first
// one's Seq is first; events that are there already, because an answer got lost, are not
// appended twice. It fails with ErrStale when the job is another's, or has ended.
func (s *Store) Publish(ctx context.Context, j Record, first int, events []Event) error {
	list := make([]any, 0, 3*len(events))
	for _, e := range events {
		list = append(list, string(e.Type), e.Offset, e.Data)
	}
	answer, err := publishScript.Run(ctx, s.rdb, j.Tenant, script.Args{
		"id": j.ID, "epoch": j.Epoch, "worker": j.Worker, "first": first, "now": s.now(), "lend_most": s.lendMost,
	}, list...).Text()
	if err != nil {
		return fmt.Errorf("publish events: %w", err)
	}
	return refused(answer)
}

// Events returns what the job's stream has after the event of that ID, "" for all that it
// still has, oldest first and at most so many.
func (s *Store) Events(ctx context.Context, id, after string, most int64) ([]Event, error) {
	start := "-"
	if after != "" {
		start = "(" + after
	}
	return s.events(ctx, id, start, "+", most)
}

// Event returns one event of the job's stream, and false where the stream doesn't have
// it, or no longer.
func (s *Store) Event(ctx context.Context, id, event string) (Event, bool, error) {
	events, err := s.events(ctx, id, event, event, 1)
	if err != nil || len(events) == 0 {
		return Event{}, false, err
	}
	return events[0], true, nil
}

func (s *Store) events(ctx context.Context, id, start, end string, most int64) ([]Event, error) {
	tenant, ok := job.TenantOf(id)
	if !ok {
		return nil, job.ErrNotFound
	}
	entries, err := s.rdb.XRangeN(ctx, eventsKey(tenant, id), start, end, most).Result()
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	events := make([]Event, len(entries))
	for i, e := range entries {
		if events[i], err = parseEvent(e); err != nil {
			return nil, fmt.Errorf("read event %s of job %s: %w", e.ID, id, err)
		}
	}
	return events, nil
}

func parseEvent(entry redis.XMessage) (Event, error) {
	field := func(name string) string { s, _ := entry.Values[name].(string); return s }
	e := Event{ID: entry.ID, Type: EventType(field("type")), Data: []byte(field("data"))}
	var err error
	if e.Epoch, err = strconv.Atoi(field("epoch")); err != nil {
		return e, err
	}
	if e.Seq, err = strconv.Atoi(field("seq")); err != nil {
		return e, err
	}
	e.Offset, err = strconv.ParseInt(field("offset"), 10, 64)
	return e, err
}

// WatchInterval is how often those who watch a job say so.
const WatchInterval = 10 * time.Second

// watchLife is for how long a job counts as watched. Hosts' clocks may differ by less.
const watchLife = time.Minute

// Watching is what a job is to those who watch it.
type Watching struct {
	StatusChange
	Epoch int
}

// Watch says that somebody watches the job, so that its worker publishes events, and
// returns what the job is now. It is to be called each WatchInterval. It fails with
// job.ErrNotFound.
func (s *Store) Watch(ctx context.Context, id string) (Watching, error) {
	tenant, ok := job.TenantOf(id)
	if !ok {
		return Watching{}, job.ErrNotFound
	}
	answer, err := watchScript.Run(ctx, s.rdb, tenant, script.Args{"id": id, "watched": s.now().Add(watchLife)}).StringSlice()
	if err != nil {
		return Watching{}, fmt.Errorf("watch job: %w", err)
	}
	if len(answer) != 3 {
		return Watching{}, job.ErrNotFound
	}
	w := Watching{StatusChange: StatusChange{Status: job.Status(answer[0])}}
	if w.Epoch, err = strconv.Atoi(answer[1]); err == nil {
		w.Attempt, err = strconv.Atoi(answer[2])
	}
	if err != nil {
		return Watching{}, fmt.Errorf("watch job %s: %w", id, err)
	}
	return w, nil
}
