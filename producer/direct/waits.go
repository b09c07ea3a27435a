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

// waits says what a queued job waits for, where that is not only its turn.
func (c *Client) waits(ctx context.Context, r record.Record) (string, error) {
	if r.State != job.Queued {
		return "", nil
	}
	workers := c.waitsForAny
	if r.Placement != "" {
		workers = func(ctx context.Context) (string, error) { return c.waitsForLabels(ctx, r.Placement) }
	}
	if text, err := workers(ctx); text != "" || err != nil {
		return text, err
	}
	again, err := c.records.LookedForAgain(ctx, r)
	if err != nil || again.IsZero() {
		return "", err
	}
	return fmt.Sprintf("no worker offers %s; one is looked for again at %s", r.Runtime+r.Image, again.UTC().Format(time.RFC3339)), nil
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
		return "every worker that takes jobs is kept for those with a placement", nil
	case len(living) > 0:
		return "every worker is paused: glovebox fleet says why", nil
	}
	return "no worker lives", nil
}
