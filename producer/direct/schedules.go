package direct

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"time"

	"github.com/glovebox-run/glovebox/internal/jsonvalue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/schedules"
	"github.com/glovebox-run/glovebox/internal/templates"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// scheduleFires is how many fires a list has.
const scheduleFires = 100

// SetSchedule is [producer.Schedules.SetSchedule].
func (c *Client) SetSchedule(ctx context.Context, name string, s job.ScheduleSettings) (job.Schedule, error) {
	return c.setSchedule(ctx, name, s, time.Now())
}

func (c *Client) setSchedule(ctx context.Context, name string, s job.ScheduleSettings, now time.Time) (job.Schedule, error) {
	if err := job.CheckScheduleName(name); err != nil {
		return job.Schedule{}, err
	}
	if err := c.checkSchedule(ctx, name, s, now); err != nil {
		return job.Schedule{}, err
	}
	for range 10 {
		sc, err := c.records.Schedule(ctx, c.tenant, name)
		if errors.Is(err, job.ErrNoSchedule) {
			sc = record.Schedule{Name: name, Seed: rand.Text(), Created: now.UTC().Truncate(time.Millisecond)}
		} else if err != nil {
			return job.Schedule{}, err
		}
		changed, err := c.storeSchedule(ctx, sc, s, now)
		if !errors.Is(err, record.ErrScheduleStale) {
			return changed, err
		}
	}
	return job.Schedule{}, record.ErrScheduleStale
}

// changeSchedule changes what there is of a schedule.
func (c *Client) changeSchedule(ctx context.Context, name string, change func(*job.ScheduleSettings)) (job.Schedule, error) {
	for range 10 {
		sc, err := c.records.Schedule(ctx, c.tenant, name)
		if err != nil {
			return job.Schedule{}, err
		}
		s := sc.ScheduleSettings
		change(&s)
		changed, err := c.storeSchedule(ctx, sc, s, time.Now())
		if !errors.Is(err, record.ErrScheduleStale) {
			return changed, err
		}
	}
	return job.Schedule{}, record.ErrScheduleStale
}

// storeSchedule gives a schedule other settings. Its times count from now where they change; a fire that
// is under way goes on.
func (c *Client) storeSchedule(ctx context.Context, sc record.Schedule, s job.ScheduleSettings, now time.Time) (job.Schedule, error) {
	before := sc.ScheduleSettings
	same := before.Cron == s.Cron && before.Zone == s.Zone && before.JitterSeconds == s.JitterSeconds && before.Paused == s.Paused &&
		before.StartsAt.Equal(s.StartsAt) && before.EndsAt.Equal(s.EndsAt)
	sc.ScheduleSettings = s
	if f := sc.Fault; !same || f != nil && f.RetryAt.IsZero() {
		sc.Fault = nil
	} // else a fire is due that could not be decided yet: it is tried again now, and is not missed for that
	table, err := schedules.New(s, sc.Seed)
	if err != nil && !s.Paused { // what was taken once and can't be read any more may rest
		return job.Schedule{}, err
	}
	var fires []job.Fire
	switch {
	case s.Paused:
		if sc.Next = (time.Time{}); sc.Waiting != nil {
			fires = append(fires, job.Fire{Time: sc.Waiting.Time, At: toMS(now), Outcome: job.FireSkipped, Late: sc.Waiting.Late, Reason: "the schedule was paused as it waited"})
			sc.Waiting = nil
		}
	case !same, sc.Next.IsZero(): // or it was given up, as its times could not be read
		sc.Next = table.After(now)
	}
	if err := c.records.SetSchedule(ctx, c.tenant, sc, lookAt(sc, table, now), fires...); err != nil {
		return job.Schedule{}, err
	}
	return wireSchedule(sc), nil
}

// checkSchedule refuses settings with which no fire could start anything.
func (c *Client) checkSchedule(ctx context.Context, name string, s job.ScheduleSettings, now time.Time) error {
	if _, err := c.terms(ctx); err != nil {
		return err
	}
	if err := s.Check(); err != nil {
		return err
	}
	if _, err := schedules.New(s, ""); err != nil {
		return err
	}
	t, err := c.Template(ctx, s.Template)
	if errors.Is(err, job.ErrNoTemplate) {
		return job.Invalid{{Field: "template", Value: s.Template, Message: "is not a template that this tenant has stored", Allowed: "a template's name, or name@revision"}}
	} else if err != nil {
		return err
	}
	if err := c.mayReadFor(ctx, t); err != nil {
		return err
	}
	sc := record.Schedule{Name: name, ScheduleSettings: s}
	if t.Pipeline != nil {
		if _, err = fireParams(sc, t, now); err != nil {
			return err
		}
		if invalid := job.RunMetadata(fireMetadata(nil, sc, now)); invalid != nil {
			return invalid
		}
		return nil
	}
	spec, err := fireSpec(sc, t, now)
	if err != nil {
		return err
	}
	_, err = c.LimitsOf(ctx, spec)
	return err
}

// fireParams are the parameters of a fire for that time. They fail with job.Invalid where the template refuses them.
func fireParams(sc record.Schedule, t job.Template, fire time.Time) (map[string]any, error) {
	if t.Pipeline != nil && sc.Callback != nil {
		return nil, job.Invalid{{Field: "callback", Message: "is for a template that is a job, and this one is a pipeline", Allowed: "none; the pipeline has a callback of its own"}}
	}
	schema, err := templates.Parse(t.Params)
	if err != nil {
		return nil, err
	}
	params := map[string]any{}
	if len(sc.Params) > 0 && string(sc.Params) != "null" {
		decoded, err := jsonvalue.Decode(sc.Params)
		object, ok := decoded.(map[string]any)
		if err != nil || !ok {
			return nil, job.Invalid{{Field: "params", Message: "is no JSON object", Allowed: "a JSON object"}}
		}
		params = object
	}
	previous := ""
	if !sc.LastFire.IsZero() {
		previous = sc.LastFire.UTC().Format(time.RFC3339)
	}
	values := map[string]string{"/fire/time": fire.UTC().Format(time.RFC3339), "/fire/previous": previous, "/schedule": sc.Name}
	for name, pointer := range sc.From {
		params[name] = values[pointer]
	}
	return params, schema.Check(params)
}

// fireSpec is the job of a fire for that time.
func fireSpec(sc record.Schedule, t job.Template, fire time.Time) (job.Spec, error) {
	if t.Pipeline != nil {
		return job.Spec{}, job.ErrIsPipeline
	}
	params, err := fireParams(sc, t, fire)
	if err != nil {
		return job.Spec{}, err
	}
	spec, err := templates.Fill(t, params)
	if err != nil {
		return spec, err
	}
	if sc.Callback != nil {
		spec.Callback = sc.Callback
	}
	spec.Metadata = fireMetadata(spec.Metadata, sc, fire)
	return spec, nil
}

// fireMetadata is the metadata of what a fire starts: the template's, over it the schedule's, and which fire it was.
func fireMetadata(template map[string]string, sc record.Schedule, fire time.Time) map[string]string {
	all := map[string]string{}
	maps.Copy(all, template)
	maps.Copy(all, sc.Metadata)
	all[job.ScheduleKey], all[job.FireKey] = sc.Name, fire.UTC().Format(time.RFC3339)
	return all
}

// Schedule is [producer.Schedules.Schedule].
func (c *Client) Schedule(ctx context.Context, name string) (job.Schedule, error) {
	sc, err := c.records.Schedule(ctx, c.tenant, name)
	return wireSchedule(sc), err
}

// ListSchedules is [producer.Schedules.ListSchedules].
func (c *Client) ListSchedules(ctx context.Context) ([]job.Schedule, error) {
	held := &reservation{Memory: c.memory}
	if err := held.Take(ctx, answerWeight*job.MaxSchedules*job.MaxScheduleBytes); err != nil {
		return nil, err
	}
	all, err := c.records.Schedules(ctx, c.tenant)
	if err != nil {
		held.keep(0)
		return nil, err
	}
	list, needed := make([]job.Schedule, len(all)), int64(0)
	for i, sc := range all {
		list[i] = wireSchedule(sc)
		needed += answerWeight * int64(sc.Stored())
	}
	held.keep(needed)
	return list, nil
}

// DeleteSchedule is [producer.Schedules.DeleteSchedule].
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	return c.records.DeleteSchedule(ctx, c.tenant, name)
}

// PauseSchedule is [producer.Schedules.PauseSchedule].
func (c *Client) PauseSchedule(ctx context.Context, name string) (job.Schedule, error) {
	return c.changeSchedule(ctx, name, func(s *job.ScheduleSettings) { s.Paused = true })
}

// ResumeSchedule is [producer.Schedules.ResumeSchedule].
func (c *Client) ResumeSchedule(ctx context.Context, name string) (job.Schedule, error) {
	return c.changeSchedule(ctx, name, func(s *job.ScheduleSettings) { s.Paused = false })
}

// RunSchedule is [producer.Schedules.RunSchedule].
func (c *Client) RunSchedule(ctx context.Context, name, key string) (producer.Job, error) {
	n := record.NewJob{ID: job.NewID(c.tenant), Key: key}
	if key != "" { // what is compared is the schedule's name: one that has changed since is no conflict
		if j, err := c.replay(ctx, &n, []byte("schedule "+name)); !errors.Is(err, job.ErrNotFound) {
			return j, err
		}
	}
	sc, err := c.records.Schedule(ctx, c.tenant, name)
	if err != nil {
		return producer.Job{}, err
	}
	now := time.Now()
	t, err := c.Template(ctx, sc.Template)
	if err != nil {
		return producer.Job{}, err
	}
	spec, err := fireSpec(sc, t, now)
	if err != nil {
		return producer.Job{}, err
	}
	spec.IdempotencyKey = key
	j, err := c.acceptFilled(ctx, n, spec)
	if err != nil || j.ID != n.ID { // or another request has made it just now, and notes it
		return j, err
	}
	fire := job.Fire{Time: toMS(now), At: toMS(now), Outcome: job.FireStarted, Job: j.ID, Manual: true}
	if err := c.records.NoteFire(context.WithoutCancel(ctx), c.tenant, name, fire); err != nil { // the job is accepted
		c.log.WarnContext(ctx, "run of schedule not noted", "schedule", name, "job_id", j.ID, "error", err)
	}
	return j, nil
}

// ScheduleFires is [producer.Schedules.ScheduleFires].
func (c *Client) ScheduleFires(ctx context.Context, name string) ([]job.Fire, error) {
	if _, err := c.records.Schedule(ctx, c.tenant, name); err != nil {
		return nil, err
	}
	return c.records.Fires(ctx, c.tenant, name, scheduleFires)
}

func toMS(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func wireSchedule(sc record.Schedule) job.Schedule {
	w := job.Schedule{Name: sc.Name, ScheduleSettings: sc.ScheduleSettings, CreatedAt: sc.Created}
	if w.LastJob = sc.LastJob; isRun(sc.LastJob) {
		w.LastJob, w.LastRun = "", sc.LastJob
	}
	if !sc.Next.IsZero() {
		next := sc.Next.UTC()
		w.NextAt = &next
	}
	if f := sc.Fault; f != nil {
		w.LastError = f.Error
		if !f.RetryAt.IsZero() {
			again := f.RetryAt.UTC()
			w.RetryAt = &again
		}
	}
	if sc.Waiting != nil {
		waiting := sc.Waiting.Time.UTC()
		w.WaitingAt = &waiting
	}
	return w
}
