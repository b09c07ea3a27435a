package deliverer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// fanOut makes of an event a delivery to each endpoint of the tenant that wants it. Made twice, it
// changes nothing: what the deliveries are called follows from what they are.
func (d *Deliverer) fanOut(ctx context.Context, event record.Delivery) error {
	endpoints, err := d.Records.Endpoints(ctx, event.Tenant)
	if err != nil {
		return fmt.Errorf("tell of %s: %w", event.Subject(), err)
	}
	status, metadata, err := d.subject(ctx, event)
	if errors.Is(err, job.ErrNotFound) || errors.Is(err, job.ErrNotHeld) { // it was purged or decided about meanwhile: nobody is told
		return d.Records.FanOut(ctx, event, nil, d.pace)
	}
	if err != nil {
		return fmt.Errorf("tell of %s: %w", event.Subject(), err)
	}
	about, _ := record.ParseNews(event.Tenant, event.News) // an endpoint is not told of itself
	var to []string
	for _, e := range endpoints {
		if e.ID != about.EndpointID && slices.Contains(e.Events, event.Event) && e.Filter.Matches(status, metadata) {
			to = append(to, e.ID)
		}
	}
	return d.Records.FanOut(ctx, event, to, d.pace)
}

// subject is what filters look at: of the job, batch or run that an event is about.
func (d *Deliverer) subject(ctx context.Context, event record.Delivery) (status string, metadata map[string]string, err error) {
	if news, _ := record.ParseNews(event.Tenant, event.News); news.HeldID != "" {
		p, err := d.Client.For(event.Tenant).Pending(ctx, news.HeldID)
		return string(p.Status), p.Metadata, err
	}
	if event.Budget != "" || event.News != "" {
		return "", nil, nil
	}
	if event.BatchID != "" {
		b, err := d.Records.GetBatch(ctx, event.BatchID)
		return string(b.State), b.Metadata, err
	}
	if event.RunID != "" {
		r, err := d.Records.RunHead(ctx, event.RunID)
		return string(r.State), r.Metadata, err
	}
	j, err := d.Records.Get(ctx, event.JobID)
	return string(j.State), j.Metadata, err
}
