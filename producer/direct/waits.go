package direct

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// waits says what a queued job waits for, where that is not only its turn or its time. Where it can't be read it says nothing: the job can be.
func (c *Client) waits(ctx context.Context, r record.Record) string {
	if r.State != job.Queued || r.RunAt.After(time.Now()) {
		return ""
	}
	text, err := c.waitsFor(ctx, r)
	if err != nil && ctx.Err() == nil {
		c.log.Warn("can't say what a job waits for", "job_id", r.ID, "error", err)
	}
	return text
}

func (c *Client) waitsFor(ctx context.Context, r record.Record) (text string, err error) {
	among := ""
	if r.Placement == "" {
		text, err = c.waitsForAny(ctx)
	} else {
		text, err = c.waitsForLabels(ctx, r.Placement)
		among = " that has the labels " + r.Placement
	}
	if text != "" || err != nil {
		return text, err
	}
	again, err := c.records.LookedForAgain(ctx, r)
	if err != nil || again.IsZero() {
		return "", err
	}
	return fmt.Sprintf("no worker%s offers %s; one is looked for again at %s", among, r.Runtime+r.Image, again.UTC().Format(time.RFC3339)), nil
}

// waitsForLabels is what a job of that placement waits for.
func (c *Client) waitsForLabels(ctx context.Context, placement string) (string, error) {
	pools, err := c.records.Fleet.Pools(ctx)
	if err != nil {
		return "", err
	}
	if may, known := pools[placement]; !known || may > 0 {
		return "", nil
	}
	return "no worker that takes jobs has the labels " + placement, nil
}

// waitsForAny is what a job without a placement waits for.
func (c *Client) waitsForAny(ctx context.Context) (string, error) {
	slots, err := c.records.Fleet.Slots(ctx)
	if err != nil || slots > 0 {
		return "", err
	}
	living, err := c.records.Fleet.Living(ctx)
	switch {
	case err != nil:
		return "", err
	case slices.ContainsFunc(living, func(w fleet.Slots) bool { return w.Slots > 0 }):
		return "no worker takes jobs without a placement", nil
	case len(living) > 0:
		return "every worker is paused", nil
	}
	return "no worker lives", nil
}
