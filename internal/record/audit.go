package record

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// auditEntries and auditJobEntries are how much the streams keep, about: some 300 bytes
	// each. What is done to jobs has a stream of its own, as it comes in thousands and would
	// push out the rest, and what the operator did, which no tenant and no stranger may push
	// out.
	auditEntries    = 20_000
	auditJobEntries = 100_000
	// auditWaiting is how many entries wait for Redis at most; beyond, they are only logged.
	auditWaiting = 4096
	// auditGroup is how many are written in a round trip at most.
	auditGroup = 200
	// auditPause is how long fewer wait for others: a round trip for each took a quarter of
	// what accepting a job takes.
	auditPause = 50 * time.Millisecond
	auditRetry = time.Second
	// auditScan is how many entries of each stream one call of Audited looks at.
	auditScan = 1000

	auditField = "entry"
)

// OperatorToken is the TokenID of what the operator did. No tenant's token has it.
const OperatorToken = "GLOVEBOX_ADMIN_TOKEN"

// The streams, in the order of a cursor.
const (
	auditOthers = iota
	auditJobs
	auditOperator
)

var auditStreams = [...]string{auditOthers: "gb:audit", auditJobs: "gb:audit:jobs", auditOperator: "gb:audit:operator"}

// auditStream is where an entry goes, and how many are kept there.
func auditStream(e job.AuditEntry) (stream string, most int64) {
	switch {
	case e.TokenID == OperatorToken:
		return auditStreams[auditOperator], auditEntries
	case strings.HasPrefix(e.Action, "job."), strings.HasPrefix(e.Action, "batch."):
		return auditStreams[auditJobs], auditJobEntries
	}
	return auditStreams[auditOthers], auditEntries
}

// auditBuffer holds entries until they are in Redis. Nobody waits for that.
type auditBuffer struct {
	mu      sync.Mutex
	waiting []job.AuditEntry
	busy    bool // somebody writes them
	lost    int
	writing sync.WaitGroup
	closing sync.Once
	closed  chan struct{} // ends waiting for a Redis that is away
}

// Audit takes an entry, to be written to Redis soon. An entry is lost to it when the
// process dies within that moment, or Redis is away for longer than so many others come.
func (s *Store) Audit(e job.AuditEntry) {
	b := &s.audit
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) >= auditWaiting {
		b.lost++
		return
	}
	b.waiting = append(b.waiting, e)
	if b.busy {
		return
	}
	b.busy = true
	b.writing.Go(s.writeAudit)
}

// writeAudit writes what waits, until nothing does.
func (s *Store) writeAudit() {
	b := &s.audit
	for warned := false; ; {
		b.gather()
		group, lost := b.group()
		if lost > 0 {
			s.log.Error("audit entries are in the log only: too many came while Redis was away", "entries", lost)
		}
		if len(group) == 0 {
			return
		}
		err := s.appendAudit(group)
		if err == nil {
			b.mu.Lock()
			b.waiting = b.waiting[len(group):]
			b.mu.Unlock()
			warned = false
			continue
		}
		if !warned {
			s.log.Warn("audit entries wait for Redis", "error", err)
			warned = true
		}
		select {
		case <-time.After(auditRetry):
		case <-b.closed:
			s.log.Error("audit entries are in the log only: Redis was away until the end", "entries", len(group), "error", err)
			return
		}
	}
}

// gather gives a group of entries a moment to come together.
func (b *auditBuffer) gather() {
	b.mu.Lock()
	whole := len(b.waiting) >= auditGroup
	b.mu.Unlock()
	if whole {
		return
	}
	select {
	case <-time.After(auditPause):
	case <-b.closed:
	}
}

// group returns what to write next, and how many entries were lost since the last time. After
// an empty one nobody writes any more.
func (b *auditBuffer) group() (group []job.AuditEntry, lost int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	group, lost, b.lost = b.waiting[:min(len(b.waiting), auditGroup)], b.lost, 0
	b.busy = len(group) > 0
	return group, lost
}

func (s *Store) appendAudit(group []job.AuditEntry) error {
	ctx, cancel := context.WithTimeout(context.Background(), redisconn.CallTimeout)
	defer cancel()
	pipe := s.rdb.Pipeline()
	for _, e := range group {
		b, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode audit entry: %w", err)
		}
		stream, most := auditStream(e)
		pipe.XAdd(ctx, &redis.XAddArgs{Stream: stream, MaxLen: most, Approx: true, Values: []any{auditField, b}})
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("write audit entries: %w", err)
	}
	return nil
}

// close waits until what waits is written, except while Redis is away.
func (b *auditBuffer) close() {
	b.closing.Do(func() { close(b.closed) })
	b.writing.Wait()
}

// AuditFilter says which entries are wanted; the zero value all.
type AuditFilter struct {
	Tenant string
	// Action, or the part of it before a point.
	Action string
}

func (f AuditFilter) matches(e job.AuditEntry) bool {
	return (f.Tenant == "" || e.Tenant == f.Tenant) && (f.Action == "" || e.Action == f.Action || strings.HasPrefix(e.Action, f.Action+"."))
}

// AuditCursor is a place in the audit log, behind an entry of each stream.
type AuditCursor [len(auditStreams)]string

// AuditSince is the place before all entries that were written from then on.
func AuditSince(t time.Time) AuditCursor {
	before := strconv.FormatInt(max(ms(t)-1, 0), 10) + "-" + strconv.FormatUint(1<<64-1, 10)
	return AuditCursor{before, before, before}
}

// ParseAuditCursor reads what String wrote.
func ParseAuditCursor(s string) (c AuditCursor, ok bool) {
	ids := strings.Split(s, "_")
	if len(ids) != len(c) {
		return c, false
	}
	ok = true
	for i, id := range ids {
		c[i] = id
		millis, sequence, found := strings.Cut(id, "-")
		ms, err := strconv.ParseUint(millis, 10, 64)
		seq, err2 := strconv.ParseUint(sequence, 10, 64)
		ok = ok && found && err == nil && err2 == nil && (ms < math.MaxUint64 || seq < math.MaxUint64) // nothing is behind the greatest
	}
	return c, ok
}

func (c AuditCursor) String() string { return strings.Join(c[:], "_") }

// Audited returns up to limit entries behind a place, the oldest first, the place behind
// them, and whether there may be more there. It looks at a bounded number of entries, so it
// may return none and not be at the end.
func (s *Store) Audited(ctx context.Context, after AuditCursor, f AuditFilter, limit int) (list []job.AuditEntry, next AuditCursor, more bool, err error) {
	pipe := s.rdb.Pipeline()
	var asked [len(auditStreams)]*redis.XMessageSliceCmd
	for i, stream := range auditStreams {
		asked[i] = pipe.XRangeN(ctx, stream, "("+after[i], "+", auditScan)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, after, false, fmt.Errorf("read audit log: %w", err)
	}
	var found [len(auditStreams)][]redis.XMessage
	var full [len(auditStreams)]bool
	for i := range asked {
		found[i] = asked[i].Val()
		full[i] = len(found[i]) == auditScan
	}
	next = after
	for {
		which := oldest(found[:])
		if which < 0 {
			return list, next, false, nil
		}
		message := found[which][0]
		found[which], next[which] = found[which][1:], message.ID
		var e job.AuditEntry
		text, _ := message.Values[auditField].(string)
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			return nil, after, false, fmt.Errorf("read audit entry %s: %w", message.ID, err)
		}
		if f.matches(e) {
			list = append(list, e)
		}
		if len(list) == limit || full[which] && len(found[which]) == 0 { // what comes next may be older than the others'
			return list, next, true, nil
		}
	}
}

// oldest is the stream whose first entry was written before those of the others, or -1.
func oldest(streams [][]redis.XMessage) int {
	which := -1
	for i, s := range streams {
		if len(s) > 0 && (which < 0 || written(s[0]) < written(streams[which][0])) {
			which = i
		}
	}
	return which
}

// written is when Redis took an entry, in ms.
func written(m redis.XMessage) int64 {
	millis, _, _ := strings.Cut(m.ID, "-")
	n, _ := strconv.ParseInt(millis, 10, 64) // Redis made it
	return n
}
