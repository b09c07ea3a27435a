package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Deliverer measures the attempts at webhooks.
type Deliverer struct {
	seconds *prometheus.HistogramVec
	faults  prometheus.Counter
}

// NewDeliverer registers the metrics of the deliverer.
func NewDeliverer(r prometheus.Registerer) *Deliverer {
	m := &Deliverer{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "glovebox_delivery_attempt_seconds", Help: "Requests to webhooks, by the class of the answer: 2xx to 5xx, or none.", Buckets: callBuckets,
		}, []string{"answer"}),
		faults: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "glovebox_delivery_faults_total", Help: "Deliveries put off by a fault of ours: no attempt was spent.",
		}),
	}
	r.MustRegister(m.seconds, m.faults)
	return m
}

// Sent measures a request; status is 0 where there was no answer.
func (m *Deliverer) Sent(status int, took time.Duration) {
	answer := "none"
	if status >= 100 && status <= 599 {
		answer = strconv.Itoa(status/100) + "xx"
	}
	m.seconds.WithLabelValues(answer).Observe(took.Seconds())
}

// Fault counts a delivery that was put off by a fault of ours.
func (m *Deliverer) Fault() { m.faults.Inc() }
