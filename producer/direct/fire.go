package direct

import (
	"context"
	"crypto/sha256"
	"errors"
	"strconv"
	"time"

	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/schedules"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// stepsAtOnce bounds how much is done for a schedule before others get their turn.
	stepsAtOnce = 20
	// waitingInterval is how often it is looked whether the job has ended that a fire waits for.
	waitingInterval = 2 * time.Second
	// fireMemory is what fires of all tenants take at once: of two of the largest jobs, or of any number of
	// small ones.
	fireMemory = 2 * mostFilled
)

// Firer returns [Client.Fire] for all tenants. What it takes of memory is bounded, however many schedules
// are due.
func (c *Client) Firer() func(ctx context.Context, tenant, name string, now time.Time) error {
	memory := newBounded(fireMemory)
	return func(ctx context.Context, tenant, name string, now time.Time) error {
		held := &reservation{Memory: memory}
		defer held.keep(0)
		return c.ForAnswer(tenant, held).Fire(ctx, name, now)
	}
}

// Fire does what is to be done about a schedule of the Client's tenant at that time. Any number of
// processes may call it at once, and each may die at any step: a fire starts one job. Each step stores the
// schedule only if it is still what the step began with, and a job's id comes from the fire's time.
func (c *Client) Fire(ctx context.Context, name string, now time.Time) error {
	for range stepsAtOnce {
		sc, err := c.records.Schedule(ctx, c.tenant, name)
		if errors.Is(err, job.ErrNoSchedule) {
			return nil
		}
		if err != nil {
			return err
		}
		more, err := c.fireStep(ctx, sc, now)
		if err != nil && !errors.Is(err, record.ErrScheduleStale) {
			err = errors.Join(err, c.noteFault(ctx, sc, now, err))
		}
		if errors.Is(err, record.ErrScheduleStale) {
			return nil // whoever changed it goes on, or has said when to look again
		}
		if err != nil || !more {
			return err
		}
	}
	return nil // the entry was put off: it is looked at again
}

// fireStep makes one step of a schedule, and reports whether there may be another.
func (c *Client) fireStep(ctx context.Context, sc record.Schedule, now time.Time) (more bool, err error) {
	table, err := schedules.New(sc.ScheduleSettings, sc.Seed)
	if err != nil {
		return false, undecided{"its times can't be read", err}
	}
	at := sc.DecideAt(now)
	sc.Fault = nil // should this step be made
	store := func(sc record.Schedule, fires ...job.Fire) error {
		return c.records.SetSchedule(ctx, c.tenant, sc, lookAt(sc, table, now), fires...)
	}
	if sc.Firing != nil {
		fire, err := c.startFire(ctx, sc, now)
		if err != nil {
			return false, undecided{"its job can't be created", err}
		}
		if fire.Outcome == job.FireStarted {
			sc.LastJob, sc.LastFire = fire.Job+fire.Run, sc.Firing.Time
		}
		sc.Firing = nil
		return true, store(sc, fire)
	}
	if sc.Paused { // then none waits
		return false, store(sc)
	}
	due := table.Due(sc.Next, at)
	blocked := false
	if sc.Waiting != nil || !due.Fire.IsZero() {
		if blocked, err = c.lastJobBlocks(ctx, sc); err != nil {
			return false, undecided{"its last job, " + sc.LastJob + ", can't be read", err}
		}
	}
	if sc.Waiting != nil && !blocked {
		sc.Firing, sc.Waiting = sc.Waiting, nil
		return true, store(sc)
	}
	sc.Next = due.Next
	var fires []job.Fire
	note := func(fire job.Fire) {
		fire.At = toMS(now)
		fires = append(fires, fire)
	}
	if due.Count > 0 {
		note(job.Fire{Time: due.Missed, Outcome: job.FireMissed, Count: due.Count})
	}
	firing := record.Firing{Time: due.Fire, Late: due.Late}
	switch {
	case due.Fire.IsZero():
		return false, store(sc, fires...)
	case !blocked:
		sc.Firing = &firing
	case sc.Overlap == job.OverlapCancel || sc.Overlap == job.OverlapQueue && sc.Waiting == nil:
		if w := sc.Waiting; w != nil {
			note(job.Fire{Time: w.Time, Late: w.Late, Outcome: job.FireSkipped, Reason: "a later fire came as it waited"})
		}
		sc.Waiting = &firing
		note(job.Fire{Time: firing.Time, Late: firing.Late, Outcome: job.FireQueued, Reason: sc.LastJob + " has not ended"})
	default:
		note(job.Fire{Time: firing.Time, Late: firing.Late, Outcome: job.FireSkipped, Reason: sc.LastJob + " has not ended"})
	}
	if err := store(sc, fires...); err != nil {
		return false, err
	}
	failpoint.Hit(failpoint.FireClaimed)
	return true, nil
}

// lookAt is when a schedule is to be looked at next; zero for never.
func lookAt(sc record.Schedule, table schedules.Timetable, now time.Time) time.Time {
	at := table.At(sc.Next)
	switch {
	case sc.Firing != nil:
		return now.Add(record.FireRetry) // should this process not go on with it
	case sc.Waiting != nil && (at.IsZero() || at.After(now.Add(waitingInterval))):
		return now.Add(waitingInterval)
	}
	return at
}

// lastJobBlocks reports whether a fire can't start as the last job has not ended. That is asked to end if the
// fire which waits wants it.
func (c *Client) lastJobBlocks(ctx context.Context, sc record.Schedule) (bool, error) {
	if sc.Overlap == job.OverlapAllow {
		return false, nil
	}
	lives, err := c.lastJobLives(ctx, sc)
	if err == nil && lives && sc.Waiting != nil && sc.Overlap == job.OverlapCancel {
		return c.cancelLast(ctx, sc)
	}
	return lives, err
}

func (c *Client) lastJobLives(ctx context.Context, sc record.Schedule) (bool, error) {
	if sc.LastJob == "" {
		return false, nil
	}
	var state job.Status
	var err error
	if isRun(sc.LastJob) {
		var r record.Run
		r, err = c.records.GetRun(ctx, sc.LastJob)
		state = r.State
	} else {
		var j record.Job
		j, err = c.records.Get(ctx, sc.LastJob)
		state = j.State
	}
	if errors.Is(err, job.ErrNotFound) {
		return false, nil
	}
	return err == nil && !state.Final(), err
}

// cancelLast asks for the end of a schedule's last job, and reports whether it lives on for now.
func (c *Client) cancelLast(ctx context.Context, sc record.Schedule) (lives bool, err error) {
	end := func() error { _, err := c.Cancel(ctx, sc.LastJob); return err }
	if isRun(sc.LastJob) {
		end = func() error { return c.records.CancelRun(ctx, sc.LastJob, record.RunCanceled) }
	}
	if err := end(); err != nil && !errors.Is(err, job.ErrEnded) && !errors.Is(err, job.ErrNotFound) {
		return true, err
	}
	return c.lastJobLives(ctx, sc)
}

// startFire creates the job of a fire, unless somebody has, and returns what became of it. An error means
// that nobody knows yet.
func (c *Client) startFire(ctx context.Context, sc record.Schedule, now time.Time) (job.Fire, error) {
	fire := job.Fire{Time: sc.Firing.Time, At: toMS(now), Outcome: job.FireStarted, Late: sc.Firing.Late}
	t, err := c.Template(ctx, sc.Template)
	run := runOfFire(c.tenant, sc.Seed, sc.Firing.Time)
	switch {
	case err != nil && !errors.Is(err, job.ErrNoTemplate):
	case t.Pipeline != nil:
		fire.Run = run
		err = c.startFired(ctx, sc, t, run)
	default: // or it is deleted, be it after the fire had started something
		if err != nil {
			if err := c.records.RunExists(ctx, run); err == nil {
				fire.Run = run
				return fire, nil
			}
		}
		fire.Job = jobOfFire(c.tenant, sc.Seed, sc.Firing.Time)
		err = c.createFired(ctx, sc, t, fire.Job)
	}
	switch job.CodeOf(err) {
	case job.CodeUnavailable, job.CodeInternal, job.CodeTimeout:
		return fire, err
	case "":
		return fire, err // be it none
	}
	fire.Outcome, fire.Job, fire.Run, fire.Reason = job.FireRefused, "", "", job.Clip(err.Error(), 500)
	return fire, nil
}

// createFired creates a fire's job. Its id is the same whoever creates it, and an idempotency key knows it
// for a day even if it has ended and is purged meanwhile.
func (c *Client) createFired(ctx context.Context, sc record.Schedule, t job.Template, id string) error {
	n := record.NewJob{ID: id, Key: "schedule:" + id, RequestHash: record.HashRequest([]byte(id))}
	var gone *job.GoneError
	switch _, err := c.records.FindByKey(ctx, c.tenant, n.Key, n.RequestHash); {
	case errors.As(err, &gone):
		return nil // it was started, has ended and is purged
	case !errors.Is(err, job.ErrNotFound):
		return err
	}
	if t.CreatedAt.IsZero() {
		return job.ErrNoTemplate
	}
	spec, err := fireSpec(sc, t, sc.Firing.Time)
	if err != nil {
		return err
	}
	_, err = c.acceptFilled(ctx, n, spec)
	if errors.Is(err, record.ErrExists) || errors.As(err, &gone) {
		return nil
	}
	return err
}

// startFired begins a fire's run, as createFired does a job.
func (c *Client) startFired(ctx context.Context, sc record.Schedule, t job.Template, id string) error {
	params, err := fireParams(sc, t, sc.Firing.Time)
	if err != nil {
		return err
	}
	text, err := job.Marshal(params)
	if err != nil {
		return err
	}
	var gone *job.GoneError
	_, err = c.openRun(ctx, record.NewRun{ID: id, Template: t.Ref(), Key: "schedule:" + id, Asked: []byte(id)}, t.Steps(), text)
	if errors.As(err, &gone) {
		return nil // it was started, has ended and is kept no longer
	}
	return err
}

// runOfFire is the id of the run that a fire starts, as jobOfFire is.
func runOfFire(tenant, seed string, at time.Time) string {
	return job.RunID(tenant, firedID(seed, at))
}

// firedID is what follows of a fire: always the same.
func firedID(seed string, at time.Time) []byte {
	sum := sha256.Sum256([]byte("fire\n" + seed + "\n" + strconv.FormatInt(at.Unix(), 10)))
	return sum[:16]
}

// jobOfFire is the id of the job that a fire starts: always the same, so that none is made twice.
func jobOfFire(tenant, seed string, at time.Time) string {
	return tenant + "-" + job.EncodeID(firedID(seed, at))
}
