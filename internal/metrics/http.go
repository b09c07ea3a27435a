package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// HTTP measures the requests that the API answers.
type HTTP struct {
	seconds *prometheus.HistogramVec
}

// NewHTTP registers the metrics of the API.
func NewHTTP(r prometheus.Registerer) *HTTP {
	m := &HTTP{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "glovebox_http_request_seconds", Help: "Requests to the API, waits for a job included.", Buckets: callBuckets,
	}, []string{"route", "code"})}
	r.MustRegister(m.seconds)
	return m
}

// Observe is for api.Config.Observe. route is the pattern that matched, or "". A status that a tenant's job
// made, -1, is code "job": a job's failure is no fault of the API's, and no job names a label.
func (m *HTTP) Observe(route string, status int, took time.Duration) {
	if route == "" {
		route = "none"
	}
	code := "job"
	if status >= 0 {
		code = strconv.Itoa(status)
	}
	m.seconds.WithLabelValues(route, code).Observe(took.Seconds())
}
