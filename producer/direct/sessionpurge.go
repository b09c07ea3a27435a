package direct

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

const (
	// sessionPurgeTime is how long a PurgeSession may take. What it has not come to then is purged by the next.
	sessionPurgeTime = 45 * time.Second
	// purgedAtOnce is how many executions are purged at once: most of the time is the bucket's.
	purgedAtOnce = 8
)

// clockSkew is by how much the clocks of two apis may differ, one of which opened a session and one took its executions.
const clockSkew = time.Minute

// PurgeSession is [producer.Sessions.PurgeSession]. The session is there until the last of its executions is gone.
func (c *Client) PurgeSession(ctx context.Context, id string) error {
	x, err := c.session(ctx, id)
	if err != nil {
		return err
	}
	if x.State != job.SessionEnded {
		return job.ErrSessionLive
	}
	ctx, cancel := context.WithTimeout(ctx, sessionPurgeTime)
	defer cancel()
	f := record.Filter{Session: id, Since: x.Created.Add(-clockSkew), Limit: producer.MaxPage}
	for more := true; more; more = f.After != "" {
		var page []record.Record
		if page, f.After, err = c.records.List(ctx, c.tenant, f); err != nil {
			return err
		}
		var some errgroup.Group
		some.SetLimit(purgedAtOnce)
		for _, j := range page {
			some.Go(func() error {
				if err := c.Purge(ctx, j.ID); !errors.Is(err, job.ErrNotFound) {
					return err
				}
				return nil
			})
		}
		if err := some.Wait(); err != nil {
			return err
		}
	}
	return c.records.PurgeSession(ctx, id)
}
