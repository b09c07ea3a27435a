package direct

import (
	"context"
	"strconv"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// MostOfProblems is what a tenant's jobs that name problems may take of memory at once.
const MostOfProblems = problemsAtOnce / 2

// TakeOfProblems takes memory as jobs of the tenant do that name problems, until done.
func (c *Client) TakeOfProblems(ctx context.Context, bytes int64) (done func(), err error) {
	if err := c.problems.making.Take(ctx, c.tenant, bytes); err != nil {
		return nil, err
	}
	return func() { c.problems.making.Give(c.tenant, bytes) }, nil
}

// RegradeBeyond is what a regrade leaves out that has as many submissions already as a batch may have.
func (c *Client) RegradeBeyond(ctx context.Context, from, to string) ([]producer.LeftOut, error) {
	g := regrade{client: c, from: from, to: to, seen: map[string]bool{}}
	for i := range job.MaxBatch {
		g.seen[strconv.Itoa(i)] = true
	}
	for _, err := range g.submissions(ctx) {
		if err != nil {
			return nil, err
		}
	}
	return g.answer.LeftOut, nil
}

// SetScheduleAt is SetSchedule at another time.
func (c *Client) SetScheduleAt(ctx context.Context, name string, s job.ScheduleSettings, now time.Time) (job.Schedule, error) {
	return c.setSchedule(ctx, name, s, now)
}
