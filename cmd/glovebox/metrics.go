package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/version"
	"github.com/glovebox-run/glovebox/runtimes"
)

// apiMetrics are what an api process counts and measures.
type apiMetrics struct {
	registry  *prometheus.Registry
	listener  net.Listener // nil where nobody is to read them
	records   *metrics.Records
	redis     *metrics.Redis
	queues    *metrics.Queues
	s3        *metrics.S3
	http      *metrics.HTTP
	deliverer *metrics.Deliverer
}

func newMetrics(ctx context.Context, c config.API) (*apiMetrics, error) {
	set, err := runtimes.Embedded()
	if err != nil {
		return nil, err
	}
	r := metrics.NewRegistry(version.Read().Version)
	m := &apiMetrics{
		registry: r, records: metrics.NewRecords(r, set.Names()), redis: metrics.NewRedis(r), queues: metrics.NewQueues(r), s3: metrics.NewS3(r),
		http: metrics.NewHTTP(r), deliverer: metrics.NewDeliverer(r),
	}
	if c.MetricsAddr == "" {
		return m, nil
	}
	m.listener, err = config.Listen(ctx, c.MetricsAddr)
	switch {
	case errors.Is(err, config.ErrAddr):
		return nil, usagef("GLOVEBOX_METRICS_ADDR: %v", err)
	case err != nil: // a port that is taken now may be free when systemd tries again
		return nil, fmt.Errorf("GLOVEBOX_METRICS_ADDR: %w", err)
	}
	return m, nil
}

// watch measures the calls of Redis, and says what Redis says there is to do.
func (m *apiMetrics) watch(records *record.Store) {
	records.Redis().AddHook(m.redis)
	m.queues.Watch(records)
}
