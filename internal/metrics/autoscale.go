package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-run/glovebox/internal/autoscale"
)

// wantedFor is how long a number of wanted workers holds that nobody has decided anew.
const wantedFor = 2 * time.Minute

// Autoscale says how many workers there should be of each pool. Once a decision is two minutes old it says nothing of the pool: whoever
// scales by it then leaves the pool as it is.
type Autoscale struct {
	wanted, needed *prometheus.Desc
	now            func() time.Time

	mu   sync.Mutex
	last map[string]autoscale.Decision // by pool
}

// NewAutoscale registers the metrics of autoscaling.
func NewAutoscale(r prometheus.Registerer) *Autoscale {
	m := &Autoscale{
		wanted: prometheus.NewDesc("glovebox_workers_wanted", "Workers that there should be of a pool; absent once nobody has decided that for 2 min.", []string{"pool"}, nil),
		needed: prometheus.NewDesc("glovebox_workers_needed", "Workers that what there is to do at this moment asks for; the wanted ones follow it at once where it grows, and slowly where it falls.", []string{"pool"}, nil),
		now:    time.Now, last: map[string]autoscale.Decision{},
	}
	r.MustRegister(m)
	return m
}

// Decided is told of a decision.
func (m *Autoscale) Decided(d autoscale.Decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last[d.Pool] = d
}

// Describe is of prometheus.Collector.
func (m *Autoscale) Describe(to chan<- *prometheus.Desc) { to <- m.wanted; to <- m.needed }

// Collect is of prometheus.Collector.
func (m *Autoscale) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for pool, d := range m.last {
		if m.now().Sub(d.At) > wantedFor {
			continue
		}
		to <- prometheus.MustNewConstMetric(m.wanted, prometheus.GaugeValue, float64(d.Wanted), pool)
		to <- prometheus.MustNewConstMetric(m.needed, prometheus.GaugeValue, float64(d.Needed), pool)
	}
}
