package deliverer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/internal/tracing"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/webhook"
)

// attempt posts the message once and notes what came of it.
func (d *Deliverer) attempt(ctx context.Context, delivery record.Delivery) error {
	switch {
	case delivery.URL == "":
		return d.note(ctx, delivery, record.Outcome{State: record.Exhausted, Problem: "the endpoint was deleted"})
	case delivery.Disabled && !delivery.Once:
		return d.note(ctx, delivery, record.Outcome{State: record.Exhausted, Problem: "the endpoint is disabled"})
	}
	method, body, err := d.message(ctx, delivery)
	if errors.Is(err, job.ErrNotFound) || errors.Is(err, artifacts.ErrNotFound) {
		d.Log.With(about(delivery)).WarnContext(ctx, "delivery has no result to send", "delivery_id", delivery.ID, "error", err)
		return d.note(ctx, delivery, record.Outcome{State: record.Exhausted, Problem: "the result is gone, and was not delivered before", Told: true})
	}
	if errors.Is(err, job.ErrNotHeld) {
		return d.note(ctx, delivery, record.Outcome{State: record.Exhausted, Problem: "the job is no longer held"})
	}
	if err != nil {
		return fmt.Errorf("write message %s: %w", delivery.ID, err)
	}
	start := time.Now()
	signers, err := d.Keys.Signers(delivery.Signer(), delivery.Signing, start)
	if err != nil {
		return fmt.Errorf("sign message %s: %w", delivery.ID, err)
	}
	headers, err := d.headers(delivery)
	if err != nil {
		d.Log.With(about(delivery)).ErrorContext(ctx, "headers of endpoint can't be opened", "delivery_id", delivery.ID, "endpoint_id", delivery.EndpointID, "error", err)
		return d.note(ctx, delivery, record.Outcome{State: record.Exhausted, Problem: "the endpoint's headers were sealed with a key that is no longer there: give them anew, then recover", Told: true})
	}
	trace, attempted, err := d.trace(ctx, delivery)
	if err != nil {
		return fmt.Errorf("read trace of message %s: %w", delivery.ID, err)
	}
	failpoint.Hit(failpoint.DeliveryTaken)
	answer, err := d.Sender.Send(ctx, webhook.Request{
		Method: method, URL: delivery.URL, ID: delivery.MessageID(), Timestamp: start, Body: body, Signers: signers, Traceparent: trace, Headers: headers,
	})
	attempted(answer.Status, err)
	var told *webhook.Error
	if err != nil && (ctx.Err() != nil || !errors.As(err, &told)) {
		return fmt.Errorf("send message %s: %w", delivery.ID, err) // cut off, or a fault of ours
	}
	failpoint.Hit(failpoint.DeliverySent)
	d.Metrics.Sent(answer.Status, time.Since(start))
	o := d.judge(delivery, answer, err)
	o.Began, o.Took = start, time.Since(start)
	d.Log.With(about(delivery)).InfoContext(ctx, "delivery attempted", "delivery_id", delivery.ID, "attempt", delivery.Attempt,
		"endpoint", endpointOf(delivery.URL), "status", answer.Status, "state", string(o.State), "error", errors.Unwrap(err),
		"ms", o.Took.Milliseconds(), "bytes", len(body))
	return d.note(ctx, delivery, o)
}

// headers are those that the delivery's endpoint has of its own.
func (d *Deliverer) headers(delivery record.Delivery) (headers map[string]string, err error) {
	if delivery.Headers.IsZero() {
		return nil, nil
	}
	text, err := d.seals.Open(delivery.Tenant, delivery.EndpointID, secrets.Sealed{Key: delivery.Headers.Key, Data: delivery.Headers.Data})
	if err == nil {
		err = json.Unmarshal(text, &headers)
	}
	return headers, err
}

// trace begins the attempt's span, in the trace of what the message is about.
func (d *Deliverer) trace(ctx context.Context, delivery record.Delivery) (traceparent string, end func(status int, err error), err error) {
	var carried string
	if d.Tracer != nil {
		if carried, err = d.Records.TraceOf(ctx, delivery); err != nil {
			return "", nil, err
		}
	}
	if delivery.RunID != "" {
		carried = tracing.OfRun(carried, delivery.RunID)
	}
	traceparent, end = d.Tracer.Attempt(ctx, carried, delivery.ID, delivery.Event, delivery.Attempt, delivery.Before > 0)
	return traceparent, end, nil
}

// about names in the log what a message is about.
func about(d record.Delivery) slog.Attr {
	switch {
	case d.BatchID != "":
		return slog.String("batch_id", d.BatchID)
	case d.RunID != "":
		return slog.String("run_id", d.RunID)
	case d.Budget != "":
		return slog.String("budget", d.Budget)
	case d.News != "":
		return slog.String("about", d.News)
	case d.JobID == "":
		return slog.String("endpoint_id", d.EndpointID)
	}
	return slog.String("job_id", d.JobID)
}

func (d *Deliverer) judge(delivery record.Delivery, answer webhook.Response, err error) record.Outcome {
	o := record.Outcome{State: record.Delivered, Status: answer.Status, Response: shown(answer.Body)}
	if err == nil {
		return o
	}
	o.Problem = err.Error()
	wait, more := d.Schedule.NextAfter(delivery.Attempt-delivery.Before, answer.RetryAfter)
	switch {
	case errors.Is(err, webhook.ErrGone):
		o.State = record.Gone
	case errors.Is(err, webhook.ErrURL), !more, delivery.Once:
		o.State = record.Exhausted
	default:
		o.State, o.Next = record.Pending, time.Now().Add(wait)
	}
	return o
}

// note writes the outcome into the record, over a short outage of Redis too: what is
// not noted is sent again.
func (d *Deliverer) note(ctx context.Context, delivery record.Delivery, o record.Outcome) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	for {
		err := d.Records.Attempted(ctx, delivery, o, d.pace)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}
