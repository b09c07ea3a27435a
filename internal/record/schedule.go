package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// maxFires is how many fires of a schedule are kept to show, about.
	maxFires = 200
	// firesAtOnce is how many schedules are looked at at once: many fire at midnight.
	firesAtOnce = 8
	// FireRetry is when a schedule is looked at again whose fire was not brought to its end, by whoever
	// looks then: less than job.Grace, so that a fire whose process died is not a missed one.
	FireRetry = 15 * time.Second
)

// Schedule is a schedule as its tenant's record holds it: what it is to do, and how far it has come.
type Schedule struct {
	Name string `json:"-"`
	job.ScheduleSettings
	// Seed makes ids of its jobs that no other schedule has, and that nobody guesses.
	Seed    string    `json:"seed"`
	Created time.Time `json:"created_at"`

	// Next is the time for which it fires next, zero for none.
	Next time.Time `json:"next,omitzero"`
	// Firing is a fire that was decided, and whose job may not have been created yet.
	Firing *Firing `json:"firing,omitempty"`
	// Waiting is a fire that starts once LastJob has ended.
	Waiting *Firing `json:"waiting,omitempty"`
	// LastJob is the job that it started last, for LastFire.
	LastJob  string    `json:"last_job,omitempty"`
	LastFire time.Time `json:"last_fire,omitzero"`
	// Fault is why its fire could not be decided or started when that was tried last.
	Fault *FireFault `json:"fault,omitempty"`

	stored string // what Redis has
}

// Firing is a fire under way.
type Firing struct {
	Time time.Time `json:"time"`
	Late bool      `json:"late,omitempty"`
}

// DecideAt is the time at which it is asked what is due.
func (sc Schedule) DecideAt(now time.Time) time.Time {
	if f := sc.Fault; f != nil && !f.RetryAt.IsZero() {
		return f.Since
	}
	return now
}

// FireFault is what a fire met that is none of its tenant's doing.
type FireFault struct {
	Error string `json:"error"`
	// Since is when it was met first: a fire that was due then is not missed for it.
	Since time.Time `json:"since"`
	// Met is how often, and Tries how often while Redis and the bucket were well.
	Met   int `json:"met"`
	Tries int `json:"tries"`
	// RetryAt is when it is tried again; zero once it was given up.
	RetryAt time.Time `json:"retry_at,omitzero"`
}

// ErrScheduleStale means that a schedule has changed since it was read.
var ErrScheduleStale = errors.New("the schedule has changed meanwhile")

// SetSchedule stores a schedule, unless it has changed since it was read, with what became of fires. due is
// when to look at it, zero for never. It fails with ErrScheduleStale or job.ErrTooManySchedules.
func (s *Store) SetSchedule(ctx context.Context, tenant string, sc Schedule, due time.Time, fires ...job.Fire) error {
	b, err := job.Marshal(sc)
	if err != nil {
		return fmt.Errorf("encode schedule: %w", err)
	}
	var list []any
	for _, f := range fires {
		fire, err := job.Marshal(f)
		if err != nil {
			return fmt.Errorf("encode fire: %w", err)
		}
		event := ""
		if f.Skipped() {
			event = MessageID("schedule "+tenant+" "+sc.Seed+" "+string(fire), job.EventScheduleSkipped)
		}
		list = append(list, fire, event)
	}
	if sc.stored == "" { // a tenant without any job has to be found, too
		if err := s.noteTenant(ctx, tenant); err != nil {
			return fmt.Errorf("store schedule: %w", err)
		}
	}
	var at any = "+inf"
	if !due.IsZero() {
		at = due
	}
	now := s.now()
	answer, err := setScheduleScript.Run(ctx, s.rdb, tenant, script.Args{
		"name": sc.Name, "before": sc.stored, "schedule": b, "due": at, "now": now, "expires": now.Add(s.retention),
	}, list...).StringSlice()
	switch {
	case err != nil:
		return fmt.Errorf("store schedule: %w", err)
	case answer[0] == "full":
		return job.ErrTooManySchedules
	case answer[0] != "ok":
		return ErrScheduleStale
	}
	s.enqueueFirstDelivery(ctx, tenant, answer[1])
	return nil
}

// Schedule returns a schedule, or job.ErrNoSchedule.
func (s *Store) Schedule(ctx context.Context, tenant, name string) (Schedule, error) {
	text, err := s.rdb.HGet(ctx, schedulesKey(tenant), name).Result()
	if errors.Is(err, redis.Nil) {
		return Schedule{}, job.ErrNoSchedule
	}
	if err != nil {
		return Schedule{}, fmt.Errorf("read schedule: %w", err)
	}
	return parseSchedule(name, text)
}

func parseSchedule(name, text string) (Schedule, error) {
	sc := Schedule{Name: name, stored: text}
	if err := json.Unmarshal([]byte(text), &sc); err != nil {
		return sc, fmt.Errorf("read schedule %s: %w", name, err)
	}
	return sc, nil
}

// Stored is how large a schedule is that was read, in bytes of JSON.
func (sc Schedule) Stored() int { return len(sc.stored) }

// Schedules lists a tenant's schedules by name.
func (s *Store) Schedules(ctx context.Context, tenant string) ([]Schedule, error) {
	all, err := s.rdb.HGetAll(ctx, schedulesKey(tenant)).Result()
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	list := make([]Schedule, 0, len(all))
	for name, text := range all {
		sc, err := parseSchedule(name, text)
		if err != nil {
			return nil, err
		}
		list = append(list, sc)
	}
	slices.SortFunc(list, func(a, b Schedule) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// DeleteSchedule forgets a schedule and its fires. It fails with job.ErrNoSchedule.
func (s *Store) DeleteSchedule(ctx context.Context, tenant, name string) error {
	n, err := deleteScheduleScript.Run(ctx, s.rdb, tenant, script.Args{"name": name}).Int()
	switch {
	case err != nil:
		return fmt.Errorf("delete schedule: %w", err)
	case n == 0:
		return job.ErrNoSchedule
	}
	return nil
}

// NoteFire writes down what became of a fire that is none of the clock's.
func (s *Store) NoteFire(ctx context.Context, tenant, name string, f job.Fire) error {
	b, err := job.Marshal(f)
	if err == nil {
		err = noteFireScript.Run(ctx, s.rdb, tenant, script.Args{"name": name, "fire": b}).Err()
	}
	if err != nil {
		return fmt.Errorf("note fire: %w", err)
	}
	return nil
}

// Fires lists what became of a schedule's fires, the newest first.
func (s *Store) Fires(ctx context.Context, tenant, name string, most int64) ([]job.Fire, error) {
	entries, err := s.rdb.XRevRangeN(ctx, firesKey(tenant, name), "+", "-", most).Result()
	if err != nil {
		return nil, fmt.Errorf("list fires of schedule: %w", err)
	}
	list := make([]job.Fire, len(entries))
	for i, e := range entries {
		text, _ := e.Values["fire"].(string)
		if err := json.Unmarshal([]byte(text), &list[i]); err != nil {
			return nil, fmt.Errorf("read fire %s of schedule %s: %w", e.ID, name, err)
		}
	}
	return list, nil
}

// Fire returns what became of one fire, or job.ErrNotFound. entry is its place in the list.
func (s *Store) Fire(ctx context.Context, tenant, name, entry string) (f job.Fire, err error) {
	entries, err := s.rdb.XRangeN(ctx, firesKey(tenant, name), entry, entry, 1).Result()
	switch {
	case err != nil:
		return f, fmt.Errorf("read fire: %w", err)
	case len(entries) == 0:
		return f, job.ErrNotFound
	}
	text, _ := entries[0].Values["fire"].(string)
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return f, fmt.Errorf("read fire %s of schedule %s: %w", entry, name, err)
	}
	return f, nil
}

// Firer does what is to be done about schedules. Each method may be called by any number of processes at once.
type Firer interface {
	// Decide says what becomes of a schedule's fires that are due at that time, and reports whether Start is to follow.
	Decide(ctx context.Context, tenant, name string, now time.Time) (start bool, err error)
	// Start starts what was decided.
	Start(ctx context.Context, tenant, name string, now time.Time) error
}

// fireSchedules looks at each schedule whose time has come. It is put off as it is claimed: should this
// process die, or Fire fail, another looks after FireRetry.
//
// All are decided before the first is started, as of the time they were claimed: Redis alone decides, and a start may wait
// for a bucket. So a fire that others hold up is no missed one.
func (w *Sweeper) fireSchedules(ctx context.Context, tenants ...string) error {
	if w.Fire == nil {
		return nil
	}
	now := w.Records.now()
	list, errs, err := w.claim(ctx, tenants, claims{set: "clock", until: now.Add(FireRetry)})
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	var mu sync.Mutex
	var decided []due
	undecided := newFireQueue(list).run(firesAtOnce, func(d due) error {
		return w.fire(ctx, d, func(ctx context.Context) error {
			start, err := w.Fire.Decide(ctx, d.tenant, d.id, now)
			if start {
				mu.Lock()
				defer mu.Unlock()
				decided = append(decided, d)
			}
			return err
		})
	})
	failed := newFireQueue(decided).run(firesAtOnce, func(d due) error {
		return w.fire(ctx, d, func(ctx context.Context) error { return w.Fire.Start(ctx, d.tenant, d.id, now) })
	})
	return errors.Join(slices.Concat(errs, undecided, failed)...)
}

func (w *Sweeper) fire(ctx context.Context, d due, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, FireRetry)
	defer cancel()
	if err := do(ctx); err != nil {
		return fmt.Errorf("fire schedule %s of tenant %s: %w", d.id, d.tenant, err)
	}
	return nil
}
