package direct

import (
	"context"
	"errors"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/schedules"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// fireTries is how often a fire is tried that meets a fault while Redis and the bucket are well: for
	// a quarter of an hour. While one of them is away it is tried for as long as that takes.
	fireTries = 8
	// mostFireDelay bounds the time between two tries, which doubles from record.FireRetry on.
	mostFireDelay = 4 * time.Minute
	// faultTimeout bounds what it takes to note a fault, when the time of the fire is over; askTimeout, before that, to ask
	// Redis and the bucket whether they are well: one that hangs is not.
	faultTimeout = 5 * time.Second
	askTimeout   = 2 * time.Second
)

// undecided means that nobody knows yet what becomes of a fire. what is for the tenant; the cause may name
// what is ours.
type undecided struct {
	what  string
	cause error
}

func (e undecided) Error() string { return e.what + ": " + e.cause.Error() }
func (e undecided) Unwrap() error { return e.cause }

// noteFault tells a schedule's owner of a fire that could not be decided or started, and puts it off. A fire
// that was tried often enough is given up.
func (c *Client) noteFault(ctx context.Context, sc record.Schedule, now time.Time, err error) error {
	ctx = context.WithoutCancel(ctx)
	fault := record.FireFault{Error: "internal error", Since: sc.DecideAt(now)}
	if u := (undecided{}); errors.As(err, &u) {
		fault.Error = u.what
		if code := job.CodeOf(u.cause); code == job.CodeInvalid || code == job.CodeNoRuntimes {
			fault.Error = job.Clip(u.Error(), 500)
		}
	}
	if before := sc.Fault; before != nil && !before.RetryAt.IsZero() {
		fault.Met, fault.Tries = before.Met, before.Tries
	}
	fault.Met++
	asked, cancel := context.WithTimeout(ctx, askTimeout)
	well := c.Ready(asked) == nil
	cancel()
	if well {
		fault.Tries++
	}
	ctx, cancel = context.WithTimeout(ctx, faultTimeout)
	defer cancel()
	if fault.Tries >= fireTries {
		return c.giveUpFire(ctx, sc, now, fault)
	}
	delay := min(record.FireRetry<<min(fault.Met-1, 8), mostFireDelay)
	fault.RetryAt = toMS(now.Add(delay))
	sc.Fault = &fault
	return c.records.SetSchedule(ctx, c.tenant, sc, fault.RetryAt)
}

// giveUpFire writes down that a fire failed. The next one is decided without what could not be read: a last
// job whose record is spoiled does not hold up all that come. A schedule whose times can't be read has no next.
func (c *Client) giveUpFire(ctx context.Context, sc record.Schedule, now time.Time, fault record.FireFault) error {
	sc.Fault = &fault
	var fires []job.Fire
	fail := func(f record.Firing) {
		fires = append(fires, job.Fire{Time: f.Time, Late: f.Late, At: toMS(now), Outcome: job.FireFailed, Reason: fault.Error})
	}
	table, err := schedules.New(sc.ScheduleSettings, sc.Seed)
	switch {
	case err != nil:
		for _, f := range []*record.Firing{sc.Firing, sc.Waiting, {Time: sc.Next}} {
			if f != nil && !f.Time.IsZero() {
				fail(*f)
			}
		}
		sc.Firing, sc.Waiting, sc.Next = nil, nil, time.Time{}
	case sc.Firing != nil:
		fail(*sc.Firing)
		sc.Firing = nil
	case sc.Waiting != nil:
		fail(*sc.Waiting)
		sc.Waiting, sc.LastJob = nil, ""
	default:
		due := table.Due(sc.Next, fault.Since)
		if due.Count > 0 {
			fires = append(fires, job.Fire{Time: due.Missed, At: toMS(now), Outcome: job.FireMissed, Count: due.Count})
		}
		if !due.Fire.IsZero() {
			fail(record.Firing{Time: due.Fire, Late: due.Late})
		}
		sc.Next, sc.LastJob = due.Next, ""
	}
	return c.records.SetSchedule(ctx, c.tenant, sc, lookAt(sc, table, now), fires...)
}
