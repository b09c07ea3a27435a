package record

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

// Filter says which jobs of a tenant to list.
type Filter struct {
	// States the job may be in; empty for any.
	States []job.Status
	// Runtime by its own name; "" for any.
	Runtime string
	// Session that they are executions of; "" for any, and for jobs that are none.
	Session string
	// Problem is the digest of the stored problem that grades them; "" for any, and for none. Jobs are then in the order in which it is of
	// no use any more to know that it did, the last first: that of their creation where their retention is the same.
	Problem string
	// Since is the earliest creation. Records have milliseconds, so what is smaller is
	// cut off here, too: a job that was created after a moment is listed since then.
	Since time.Time
	// After is where the page before ended; "" begins with the newest job.
	After Position
	// Limit is how many jobs to list at most, from 1.
	Limit int
}

// Position is a place in the list of a tenant's jobs, which is ordered by creation: it
// is that of one job, and stays where it is whatever comes or goes.
type Position string

const (
	// millisDigits is how a time is written in a Position, up to the year 2286.
	millisDigits = 13
	latestMillis = 9_999_999_999_999
)

// position is the entry of a job in the list, as the create script writes it.
func position(created time.Time, id string) Position {
	return Position(fmt.Sprintf("%0*d:%s", millisDigits, min(max(ms(created), 0), latestMillis), id))
}

// ParsePosition reads a Position of this tenant's list.
func ParsePosition(tenant, s string) (Position, bool) { return parsePosition(tenant, s, job.TenantOf) }

// ParseRunPosition reads a Position of this tenant's list of runs.
func ParseRunPosition(tenant, s string) (Position, bool) {
	return parsePosition(tenant, s, job.TenantOfRun)
}

func parsePosition(tenant, s string, tenantOf func(id string) (string, bool)) (Position, bool) {
	millis, id, ok := strings.Cut(s, ":")
	of, isID := tenantOf(id)
	digits := strings.Trim(millis, "0123456789") == ""
	return Position(s), ok && isID && of == tenant && digits && len(millis) == millisDigits
}

func (p Position) id() string { _, id, _ := strings.Cut(string(p), ":"); return id }

const (
	// listChunk is how many entries one round trip looks at, listMost how many a page
	// does, whatever it finds: a filter that fits nothing must not walk through all, and
	// one request is to cost about as much as another, since requests are what is counted.
	listChunk = 100
	listMost  = 500
	// listBytes bounds the metadata of a page.
	listBytes = 1 << 20
)

// List returns jobs of a tenant, newest first, without specs and results, and where the
// next page goes on: "" at the end. A page can hold fewer jobs than the limit, or none,
// and not be the last one. A page looks at 500 jobs at most, by one command each.
func (s *Store) List(ctx context.Context, tenant string, f Filter) (jobs []Record, next Position, err error) {
	if !job.ValidTenant(tenant) {
		return nil, "", nil
	}
	found, next, err := s.find(ctx, tenant, f)
	if err == nil {
		jobs, err = s.readListed(ctx, tenant, ids(found))
	}
	if err != nil {
		return nil, "", fmt.Errorf("list jobs: %w", err)
	}
	metadata := 0
	for i, j := range jobs {
		for k, v := range j.Metadata {
			metadata += len(k) + len(v)
		}
		if metadata > listBytes && i+1 < len(jobs) {
			jobs, next = jobs[:i+1], found[i]
			break
		}
	}
	// Some may have moved on since they were found, and what a problem graded is not in the order of creation.
	jobs = slices.DeleteFunc(jobs, func(j Record) bool {
		return !f.fits(look{j.State, j.Runtime, j.Session}) || !f.Since.IsZero() && ms(j.Created) < ms(f.Since)
	})
	return jobs, next, nil
}

func (f Filter) fits(l look) bool {
	return l.state != "" && (len(f.States) == 0 || slices.Contains(f.States, l.state)) && (f.Runtime == "" || f.Runtime == l.runtime) &&
		(f.Session == "" || f.Session == l.session)
}

func (f Filter) fitsAll() bool {
	return len(f.States) == 0 && f.Runtime == "" && f.Session == "" && f.Problem == ""
}

func ids(positions []Position) []string {
	list := make([]string, len(positions))
	for i, p := range positions {
		list[i] = p.id()
	}
	return list
}

// find looks for the jobs of one page.
func (s *Store) find(ctx context.Context, tenant string, f Filter) (found []Position, next Position, err error) {
	after := f.After
	for looked := 0; looked < listMost; {
		chunk := min(listChunk, listMost-looked)
		if f.fitsAll() && looked == 0 {
			chunk = min(chunk, f.Limit)
		}
		entries, err := s.entries(ctx, tenant, f, after, chunk)
		if err != nil {
			return nil, "", err
		}
		looks, err := s.glance(ctx, tenant, entries)
		if err != nil {
			return nil, "", err
		}
		for i, l := range looks {
			after = Position(entries[i])
			if !f.fits(l) { // or its record has expired
				continue
			}
			found = append(found, after)
			if len(found) >= f.Limit {
				return found, after, nil
			}
		}
		if looked += len(entries); len(entries) < chunk {
			return found, "", nil
		}
	}
	return found, after, nil
}

// entries are up to count of those behind a position, of the list that the filter is about; fewer at its end.
func (s *Store) entries(ctx context.Context, tenant string, f Filter, after Position, count int) ([]string, error) {
	if f.Problem != "" {
		return s.gradedEntries(ctx, gradedKey(tenant, f.Problem), after, count)
	}
	most, least := "+", "-"
	if after != "" {
		most = "(" + string(after)
	}
	if !f.Since.IsZero() {
		least = "[" + string(position(f.Since, ""))
	}
	return s.rdb.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: jobsKey(tenant), ByLex: true, Rev: true, Start: most, Stop: least, Count: int64(count),
	}).Result()
}

// look is what a filter wants to know of a job.
type look struct {
	state            job.Status
	runtime, session string
}

func (s *Store) glance(ctx context.Context, tenant string, entries []string) ([]look, error) {
	pipe := s.rdb.Pipeline()
	fields := make([]*redis.SliceCmd, len(entries))
	for i, e := range entries {
		fields[i] = pipe.HMGet(ctx, jobKey(tenant, Position(e).id()), "state", "runtime", "session")
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return nil, err
	}
	looks := make([]look, len(entries))
	for i := range entries {
		if fields[i].Err() != nil { // no record: it fits nothing
			s.unreadable.PassOver("a record", fields[i].Err())
			continue
		}
		state, _ := fields[i].Val()[0].(string) // nil where the record is gone
		runtime, _ := fields[i].Val()[1].(string)
		session, _ := fields[i].Val()[2].(string)
		looks[i] = look{job.Status(state), runtime, session}
	}
	return looks, nil
}

// listed are the fields of a record that a list shows.
var listed = []string{
	"state", "epoch", "attempts", "runtime", "image", "priority", "metadata", "created", "run_at", "deadline", "started", "finished", "worker", "cancel", "callback", "retention", "problem", "batch", "session", "sequence", "hold", "approval",
}

// readListed reads what lists show. One that is no record, or that can't be read, is the zero Job.
func (s *Store) readListed(ctx context.Context, tenant string, ids []string) ([]Record, error) {
	pipe := s.rdb.Pipeline()
	all := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		all[i] = pipe.HMGet(ctx, jobKey(tenant, id), listed...)
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return nil, err
	}
	jobs := make([]Record, len(ids))
	for i, id := range ids {
		fields := map[string]string{}
		for n, v := range all[i].Val() {
			if text, ok := v.(string); ok {
				fields[listed[n]] = text
			}
		}
		j, err := parseJob(tenant, id, fields)
		if err = cmp.Or(all[i].Err(), err); err != nil {
			s.unreadable.PassOver("a record", err)
			continue
		}
		jobs[i] = j
	}
	return jobs, nil
}
