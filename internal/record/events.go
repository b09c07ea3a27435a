package record

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

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
	eventLife = "60000" // ms
	// unwatchedLife is that of one that nobody watches as its job ends: however many such
	// jobs a tenant runs, their streams are not to fill Redis.
	unwatchedLife = "10000" // ms
	// eventPatience is how long a stream may go without a new event before it is
	// forgotten, should its job never end.
	eventPatience = 24 * time.Hour
)

// Publish appends events of the epoch and worker that j names to its stream. The first
// one's Seq is first; events that are there already, because an answer got lost, are not
// appended twice. It fails with ErrStale when the job is another's, or has ended.
func (s *Store) Publish(ctx context.Context, j Job, first int, events []Event) error {
	args := make([]any, 0, 10+3*len(events))
	args = append(args, j.ID, j.Epoch, j.Worker, first, maxEventBytes, eventCost, eventPatience.Milliseconds(), ms(s.now()), s.lendMost)
	for _, e := range events {
		args = append(args, string(e.Type), e.Offset, e.Data)
	}
	answer, err := publishScript.Run(ctx, s.rdb, []string{tenantPrefix(j.Tenant)}, args...).Text()
	if err != nil {
		return fmt.Errorf("publish events: %w", err)
	}
	return refused(answer)
}

// streamEnd reads the last entry of a stream. Every entry has the same fields in the same
// order: that is what appendEvent writes.
const streamEnd = `
local function stream_end(events)
  local last = redis.call('XREVRANGE', events, '+', '-', 'COUNT', 1)[1]
  if not last then return nil end
  return {epoch = last[2][4], seq = tonumber(last[2][6]), total = tonumber(last[2][10])}
end
local function append_event(events, kind, epoch, seq, offset, total, data)
  redis.call('XADD', events, '*', 'type', kind, 'epoch', epoch, 'seq', seq, 'offset', offset, 'total', total, 'data', data)
end
`

// What a stream counts as lent is what it takes of Redis: 1.3 MiB for 1 MiB of events (docs/adr/0009-watching.md).
var publishScript = redis.NewScript(memory + lending + streamEnd + `
-- ARGV: id, epoch, worker, seq of the first, most bytes, cost of one, ttl ms, now, most bytes lent, then type, offset, data, …
local events = t .. 'events:' .. ARGV[1]
local r = call('HMGET', t .. 'job:' .. ARGV[1], 'state', 'epoch', 'worker')
if r[1] ~= 'running' or r[2] ~= ARGV[2] or r[3] ~= ARGV[3] then return 'stale' end
local last = stream_end(events)
local seq, total = 0, 0
if last then
  total = last.total
  if last.epoch == ARGV[2] then seq = last.seq end
end
local next = tonumber(ARGV[4])
for i = 10, #ARGV, 3 do
  if next > seq then
    total = total + ARGV[6] + #ARGV[i + 2]
    append_event(events, ARGV[i], ARGV[2], next, ARGV[i + 1], total, ARGV[i + 2])
  end
  next = next + 1
end
local kept = 0
while true do
  local first = call('XRANGE', events, '-', '+', 'COUNT', 1)[1]
  if not first then break end
  kept = total - first[2][10] + ARGV[6] + #first[2][12]
  if total - first[2][10] < tonumber(ARGV[5]) then break end
  call('XDEL', events, first[1])
end
call('PEXPIRE', events, ARGV[7])
lend('events:' .. ARGV[1], math.floor(kept * 1.3), ARGV[8] + ARGV[7], ARGV[8], ARGV[9])
call('PUBLISH', 'gb:events:' .. ARGV[1], '')
return 'ok'`)

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
	answer, err := watchScript.Run(ctx, s.rdb, []string{jobKey(tenant, id), eventsKey(tenant, id)}, id, ms(s.now().Add(watchLife))).StringSlice()
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

// A worker that publishes already needs no message.
var watchScript = redis.NewScript(streamEnd + `
-- KEYS: job, events   ARGV: id, until
local r = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'attempts')
if not r[1] then return {} end
if r[1] == 'queued' or r[1] == 'running' then
  redis.call('HSET', KEYS[1], 'watched', ARGV[2])
  local last = r[1] == 'running' and stream_end(KEYS[2])
  if r[1] == 'running' and not (last and last.epoch == r[2] and last.seq > 0) then redis.call('PUBLISH', 'gb:cancel', ARGV[1]) end
end
return {r[1], r[2], r[3]}`)
