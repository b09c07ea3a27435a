package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-run/glovebox/artifacts"
)

// S3 measures the requests of a bucket's client.
type S3 struct {
	seconds *prometheus.HistogramVec
	errors  *prometheus.CounterVec
}

// NewS3 registers the metrics of the bucket's client.
func NewS3(r prometheus.Registerer) *S3 {
	m := &S3{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "glovebox_s3_request_seconds", Help: "Requests to the bucket, each attempt for itself, to the head of the answer.", Buckets: callBuckets,
		}, []string{"operation"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glovebox_s3_errors_total", Help: "Requests to the bucket that failed, each attempt for itself: timeout, connection, throttled, server (5xx), refused (any other answer).",
		}, []string{"operation", "reason"}),
	}
	r.MustRegister(m.seconds, m.errors)
	return m
}

// Observe is for artifacts.Config.Observe.
func (m *S3) Observe(r artifacts.Request) {
	m.seconds.WithLabelValues(r.Operation).Observe(r.Took.Seconds())
	if r.Failure != "" {
		m.errors.WithLabelValues(r.Operation, string(r.Failure)).Inc()
	}
}
