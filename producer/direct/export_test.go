package direct

import (
	"context"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// SetScheduleAt is SetSchedule at another time.
func (c *Client) SetScheduleAt(ctx context.Context, name string, s job.ScheduleSettings, now time.Time) (job.Schedule, error) {
	return c.setSchedule(ctx, name, s, now)
}
