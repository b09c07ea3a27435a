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
	fireMemory = 2 * mostTaken
)

// Firer is [Client.DecideFire] and [Client.Fire] for all tenants. What it takes of memory is bounded, however
// many schedules are due.
type Firer struct {
	client *Client
	memory bounded
}

// Firer returns one for all tenants.
func (c *Client) Firer() *Firer { return &Firer{c, newBounded(fireMemory)} }

// Decide is [Client.DecideFire].
func (f *Firer) Decide(ctx context.Context, tenant, name string, now time.Time) (start bool, err error) {
	held := &reservation{Memory: f.memory}
	defer held.keep(0)
	return f.client.ForAnswer(tenant, held).DecideFire(ctx, name, now)
}

// Start is [Client.Fire].
func (f *Firer) Start(ctx context.Context, tenant, name string, now time.Time) error {
	held := &reservation{Memory: f.memory}
	defer held.keep(0)
	return f.client.ForAnswer(tenant, held).Fire(ctx, name, now)
}

// Fire does what is to be done about a schedule of the Client's tenant at that time. Any number of
// processes may call it at once, and each may die at any step: a fire starts one job. Each step stores the
// schedule only if it is still what the step began with, and a job's id comes from the fire's time.
func (c *Client) Fire(ctx context.Context, name string, now time.Time) error {
	_, err := c.fire(ctx, name, now, func(record.Schedule) bool { return false })
	return err
}

// DecideFire does what Fire does until there is a job to start, and reports whether there is. It waits for no
// bucket: so many schedules that are due at one time can be decided before the first job is started.
func (c *Client) DecideFire(ctx context.Context, name string, now time.Time) (start bool, err error) {
	return c.fire(ctx, name, now, func(sc record.Schedule) bool { return sc.Firing != nil })
}

// fire makes the steps of a schedule until enough, and reports whether it came to that.
func (c *Client) fire(ctx context.Context, name string, now time.Time, enough func(record.Schedule) bool) (bool, error) {
	for range stepsAtOnce {
		sc, err := c.records.Schedule(ctx, c.tenant, name)
		if errors.Is(err, job.ErrNoSchedule) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if enough(sc) {
			return true, nil
		}
		more, err := c.fireStep(ctx, sc, now)
		if err != nil && !errors.Is(err, record.ErrScheduleStale) {
			err = errors.Join(err, c.noteFault(ctx, sc, now, err))
		}
		if errors.Is(err, record.ErrScheduleStale) {
			return false, nil // whoever changed it goes on, or has said when to look again
		}
		if err != nil || !more {
			return false, err
		}
	}
	return false, nil // the entry was put off: it is looked at again
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
	state := c.records.StateOf
	if isRun(sc.LastJob) {
		state = c.records.StateOfRun
	}
	at, err := state(ctx, sc.LastJob)
	if errors.Is(err, job.ErrNotFound) {
		return false, nil
	}
	return err == nil && !at.Final(), err
}

// cancelLast asks for the end of a schedule's last job, and reports whether it lives on for now.
func (c *Client) cancelLast(ctx context.Context, sc record.Schedule) (lives bool, err error) {
	end := func() error { return c.askForEnd(ctx, sc.LastJob) }
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
	id, err := c.fired(ctx, sc)
	if errors.Is(err, job.ErrNotFound) {
		id, err = c.startFired(ctx, sc)
	}
	if isRun(id) {
		fire.Run = id
	} else {
		fire.Job = id
	}
	switch job.CodeOf(err) {
	case job.CodeUnavailable, job.CodeInternal, job.CodeTimeout, job.CodeNoRuntimes: // a worker may come
		return fire, err
	case "":
		return fire, err // be it none
	}
	fire.Outcome, fire.Job, fire.Run, fire.Reason = job.FireRefused, "", "", job.Clip(err.Error(), 500)
	return fire, nil
}

// fired is the job or the run that a fire has started before, or job.ErrNotFound. An idempotency key knows it for a day,
// even if it has ended and is purged meanwhile. Nothing is asked of the template: it may have changed since, also from
// a job to a pipeline.
func (c *Client) fired(ctx context.Context, sc record.Schedule) (id string, err error) {
	run := runOfFire(c.tenant, sc.Seed, sc.Firing.Time)
	_, err = c.records.FindRunByKey(ctx, c.tenant, keyOfFire(run), []byte(run))
	var gone *job.GoneError
	if err == nil || errors.As(err, &gone) {
		return run, nil
	} else if !errors.Is(err, job.ErrNotFound) {
		return "", err
	}
	id = jobOfFire(c.tenant, sc.Seed, sc.Firing.Time)
	if _, err = c.records.FindByKey(ctx, c.tenant, keyOfFire(id), record.HashRequest([]byte(id))); errors.As(err, &gone) {
		err = nil
	}
	return id, err
}

// startFired creates the job of a fire, or begins its run. The ids are the same whoever does.
func (c *Client) startFired(ctx context.Context, sc record.Schedule) (id string, err error) {
	t, err := c.Template(ctx, sc.Template)
	if err != nil {
		return "", err
	}
	if t.Pipeline != nil {
		id = runOfFire(c.tenant, sc.Seed, sc.Firing.Time)
		err = c.beginFired(ctx, sc, t, id)
	} else {
		id = jobOfFire(c.tenant, sc.Seed, sc.Firing.Time)
		err = c.createFired(ctx, sc, t, id)
	}
	return id, unlessStarted(err) // or another process was quicker
}

func (c *Client) createFired(ctx context.Context, sc record.Schedule, t job.Template, id string) error {
	spec, err := fireSpec(sc, t, sc.Firing.Time)
	if err != nil {
		return err
	}
	_, err = c.acceptFilled(ctx, record.NewJob{ID: id, Key: keyOfFire(id), RequestHash: record.HashRequest([]byte(id))}, spec)
	return err
}

func (c *Client) beginFired(ctx context.Context, sc record.Schedule, t job.Template, id string) error {
	params, err := fireParams(sc, t, sc.Firing.Time)
	if err != nil {
		return err
	}
	text, err := job.Marshal(params)
	if err != nil {
		return err
	}
	_, err = c.openRun(ctx, record.NewRun{ID: id, Template: t.Ref(), Metadata: fireMetadata(nil, sc, sc.Firing.Time), Key: keyOfFire(id), Asked: []byte(id)}, t.Steps(), text)
	return err
}

// keyOfFire is the idempotency key of what a fire starts.
func keyOfFire(id string) string { return "schedule:" + id }

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
