package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"

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

// serveWhile runs the worker, and answers scrapes as long as it runs, its drain included.
func (m *workerMetrics) serveWhile(ctx context.Context, log *slog.Logger, run func(context.Context) error) error {
	if m.listener == nil {
		return run(ctx)
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var scrapes sync.WaitGroup
	scrapes.Go(func() {
		metrics.Serve(serving, m.listener, m.registry, map[string]http.Handler{metrics.SnapshotsPath: &m.snapshots}, log)
	})
	defer scrapes.Wait()
	defer stop()
	return run(ctx)
}

// close is for a start that failed before serveWhile.
func (m *workerMetrics) close() {
	if m.listener != nil {
		m.listener.Close()
	}
}
