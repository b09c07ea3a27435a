package producer

import (
	"context"
	"fmt"
	"net/http"

	"github.com/glovebox-run/glovebox/job"
)

// Schedules is what a tenant does with templates that start by the clock. Safe for concurrent use.
type Schedules interface {
	// SetSchedule stores a schedule, or changes the one of that name. Where its times change it begins
	// anew from now. It fails with job.Invalid or job.ErrTooManySchedules.
	SetSchedule(ctx context.Context, name string, s job.ScheduleSettings) (job.Schedule, error)
	// Schedule returns a schedule, or job.ErrNoSchedule.
	Schedule(ctx context.Context, name string) (job.Schedule, error)
	// ListSchedules lists them by name.
	ListSchedules(ctx context.Context) ([]job.Schedule, error)
	// DeleteSchedule forgets a schedule. Jobs that it started go on.
	DeleteSchedule(ctx context.Context, name string) error
	// PauseSchedule lets a schedule rest. A fire that waits is dropped.
	PauseSchedule(ctx context.Context, name string) (job.Schedule, error)
	// ResumeSchedule has it fire again, from now on.
	ResumeSchedule(ctx context.Context, name string) (job.Schedule, error)
	// RunSchedule makes a job of the schedule now, whatever its times and its last job are, as
	// RunTemplate does. key may be "": else the same run under the same key, within 24 hours, is answered
	// with the first one's job.
	RunSchedule(ctx context.Context, name, key string) (Job, error)
	// ScheduleFires lists what became of the last 100 fires, the newest first.
	ScheduleFires(ctx context.Context, name string) ([]job.Fire, error)
}

var _ Schedules = (*Client)(nil)

// ScheduleList is the answer of GET /v1/schedules.
type ScheduleList struct {
	Schedules []job.Schedule `json:"schedules" nullable:"false" doc:"The tenant's schedules by name."`
}

// FireList is the answer of GET /v1/schedules/{name}/fires.
type FireList struct {
	Fires []job.Fire `json:"fires" nullable:"false" doc:"The newest first, 100 at most."`
}

const schedulesPath = "/v1/schedules"

// SetSchedule is [Schedules.SetSchedule].
func (c *Client) SetSchedule(ctx context.Context, name string, s job.ScheduleSettings) (job.Schedule, error) {
	var sc job.Schedule
	if err := job.CheckScheduleName(name); err != nil {
		return sc, err
	}
	err := c.send(ctx, http.MethodPut, schedulesPath+"/"+name, s, &sc)
	return sc, err
}

// Schedule is [Schedules.Schedule].
func (c *Client) Schedule(ctx context.Context, name string) (job.Schedule, error) {
	var sc job.Schedule
	path, err := schedulePath(name)
	if err == nil {
		err = c.json(ctx, http.MethodGet, path, 0, nil, &sc)
	}
	return sc, err
}

// ListSchedules is [Schedules.ListSchedules].
func (c *Client) ListSchedules(ctx context.Context) ([]job.Schedule, error) {
	var list ScheduleList
	err := c.json(ctx, http.MethodGet, schedulesPath, 0, nil, &list)
	return list.Schedules, err
}

// DeleteSchedule is [Schedules.DeleteSchedule].
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	path, err := schedulePath(name)
	if err != nil {
		return err
	}
	res, err := c.do(ctx, http.MethodDelete, path)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// PauseSchedule is [Schedules.PauseSchedule].
func (c *Client) PauseSchedule(ctx context.Context, name string) (job.Schedule, error) {
	return c.switchSchedule(ctx, name, "/pause")
}

// ResumeSchedule is [Schedules.ResumeSchedule].
func (c *Client) ResumeSchedule(ctx context.Context, name string) (job.Schedule, error) {
	return c.switchSchedule(ctx, name, "/resume")
}

func (c *Client) switchSchedule(ctx context.Context, name, verb string) (job.Schedule, error) {
	var sc job.Schedule
	path, err := schedulePath(name)
	if err == nil {
		err = c.json(ctx, http.MethodPost, path+verb, 0, nil, &sc)
	}
	return sc, err
}

// RunSchedule is [Schedules.RunSchedule]. With a key it bears with an API that is away, or an answer that gets
// lost, for up to 30 s.
func (c *Client) RunSchedule(ctx context.Context, name, key string) (Job, error) {
	path, err := schedulePath(name)
	if err != nil {
		return Job{}, err
	}
	if key == "" {
		return c.post(ctx, path+"/run", 0, nil, false)
	}
	return insist(ctx, func() (j Job, err error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path+"/run", http.NoBody)
		if err != nil {
			return j, fmt.Errorf("ask the API: %w", err)
		}
		req.Header.Set("Idempotency-Key", key)
		err = c.askJSON(req, &j)
		return j, err
	})
}

// ScheduleFires is [Schedules.ScheduleFires].
func (c *Client) ScheduleFires(ctx context.Context, name string) ([]job.Fire, error) {
	var list FireList
	path, err := schedulePath(name)
	if err == nil {
		err = c.json(ctx, http.MethodGet, path+"/fires", 0, nil, &list)
	}
	return list.Fires, err
}

func schedulePath(name string) (string, error) {
	if !job.ValidTemplateName(name) {
		return "", job.ErrNoSchedule // "..", say, would mean another URL
	}
	return schedulesPath + "/" + name, nil
}
