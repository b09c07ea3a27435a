package main

import (
	"fmt"
	"log/slog"

	"github.com/glovebox-run/glovebox/deliverer"
	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/hookkeys"
	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/tracing"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/webhook"
)

// webhookJitter is how much is added to a delay at most, so that messages which failed
// together don't come back together.
const webhookJitter = 0.2

// delivery is what the api's environment says about webhooks.
type delivery struct {
	keys     *hookkeys.Keys
	schedule webhook.Schedule
	guard    *webhook.Guard
}

// readDelivery reads it before anything is opened: a fault is the operator's.
func readDelivery(c config.API) (delivery, error) {
	d := delivery{schedule: webhook.DefaultSchedule()}
	var err error
	if d.keys, err = hookkeys.Parse(c.WebhookKey); err != nil {
		return d, &failure{code: exitUsage, err: fmt.Errorf("GLOVEBOX_WEBHOOK_KEY: %w", err)}
	}
	var allow []webhook.Target
	for _, text := range c.WebhookAllow {
		t, err := webhook.ParseTarget(text)
		if err != nil {
			return d, &failure{code: exitUsage, err: fmt.Errorf("GLOVEBOX_WEBHOOK_ALLOW: %w", err)}
		}
		allow = append(allow, t)
	}
	d.guard = webhook.NewGuard(webhook.GuardConfig{Allow: allow})
	if c.WebhookSchedule != "" {
		if d.schedule, err = webhook.ParseSchedule(c.WebhookSchedule, webhookJitter); err != nil {
			return d, &failure{code: exitUsage, err: fmt.Errorf("GLOVEBOX_WEBHOOK_SCHEDULE: %w", err)}
		}
	}
	return d, nil
}

// newDeliverer returns the deliverer. The caller closes the sender after it has run.
func newDeliverer(c config.API, d delivery, records *record.Store, client *direct.Client, links *direct.Links, m *metrics.Deliverer, tracer *tracing.Tracer, log *slog.Logger) (*deliverer.Deliverer, *webhook.Sender, error) {
	sender := webhook.New(webhook.Config{Guard: d.guard})
	run, err := deliverer.New(deliverer.Config{
		Records: records, Client: client, Links: links, Sender: sender, Keys: d.keys,
		Schedule: d.schedule, Interval: c.Poll, Grace: c.Grace, Metrics: m, Tracer: tracer, Log: log, Translate: translator(c.Facades),
	})
	if err != nil {
		sender.Close()
		return nil, nil, err
	}
	return run, sender, nil
}
