package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/internal/version"
)

// workerMetrics are the metrics of a worker, and the socket where they can be read.
type workerMetrics struct {
	registry *prometheus.Registry
	listener net.Listener // nil without GLOVEBOX_METRICS_ADDR
	records  *metrics.Records
	redis    *metrics.Redis
	s3       *metrics.S3
	worker   *metrics.Worker

	snapshots metrics.SnapshotPage
}

func newMetrics(ctx context.Context, c config.Worker, runtimes []string) (*workerMetrics, error) {
	r := metrics.NewRegistry(version.Read().Version)
	m := &workerMetrics{
		registry: r, records: metrics.NewRecords(r, runtimes), redis: metrics.NewRedis(r), s3: metrics.NewS3(r),
		worker: metrics.NewWorker(r, runtimes),
	}
	if c.MetricsAddr == "" {
		return m, nil
	}
	var err error
	if m.listener, err = config.Listen(ctx, c.MetricsAddr); err != nil {
		return nil, fmt.Errorf("GLOVEBOX_METRICS_ADDR: %w", err)
	}
	return m, nil
}

// serve answers scrapes, and doctor's questions, until stop.
func (m *workerMetrics) serve(ctx context.Context, log *slog.Logger) (stop func()) {
	return metrics.Start(ctx, m.listener, m.registry, map[string]http.Handler{metrics.SnapshotsPath: &m.snapshots}, log)
}
