package metrics

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-run/glovebox/internal/record"
)

const (
	// lookTimeout bounds what a scrape waits for Redis.
	lookTimeout = 5 * time.Second
	// lookFor is how long a look holds: two Prometheus servers ask no more than one.
	lookFor = time.Second
)

// Queues says how much there is to do, from Redis, when it is asked. Every api says the
// same: a query takes the max of them, not the sum.
type Queues struct {
	up, queued, running, deliveries, garbage *prometheus.Desc
	scheduled, held, waiting                 *prometheus.Desc
	backlog, overTenants, backlogOldest      *prometheus.Desc
	unserved                                 *prometheus.Desc
	tasks, oldest                            *prometheus.Desc

	mu      sync.Mutex
	records queueRecords // nil: Redis has not been reached yet
	at      time.Time
	last    record.Depth
	err     error
	full    error // why Redis takes nothing, though it answers
}

// queueRecords is what a [record.Store] says of Redis.
type queueRecords interface {
	Depth(ctx context.Context) (record.Depth, error)
	Ping(ctx context.Context) error
}

// errNotReached is why nothing is known as long as Redis has not been reached.
var errNotReached = errors.New("no Redis has been reached yet")

// NewQueues registers the metrics of queues, which begin with Watch: until then Redis counts as away.
func NewQueues(r prometheus.Registerer) *Queues {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	m := &Queues{
		up:            desc("glovebox_redis_up", "1 if Redis answers, and takes what is written; 0 if it doesn't. Where it answers nothing the metrics that come from it are absent."),
		queued:        desc("glovebox_jobs_queued", "Jobs that wait for a worker, of all tenants."),
		scheduled:     desc("glovebox_jobs_scheduled", "Jobs that may not run yet; they are not among the queued."),
		held:          desc("glovebox_jobs_held", "Jobs that a rule holds until somebody decides; they are not among the queued."),
		waiting:       desc("glovebox_jobs_waiting", "Jobs that wait for a worker, by their tenant: over_window are those of tenants that have a backlog, within_window all others.", "tenants"),
		backlog:       desc("glovebox_backlog_jobs", "Jobs that are not released to the queue, because their tenant has its share of it."),
		overTenants:   desc("glovebox_backlog_tenants", "Tenants that have a backlog."),
		unserved:      desc("glovebox_backlog_unserved_jobs", "Jobs of backlogs whose labels no worker that takes jobs has."),
		backlogOldest: desc("glovebox_backlog_oldest_seconds", "How long the job waits that is first in a tenant's backlog for longest; 0 if there is none."),
		running:       desc("glovebox_jobs_running", "Jobs that workers run, of all tenants."),
		deliveries:    desc("glovebox_deliveries_pending", "Webhook messages that are not delivered and not given up."),
		garbage:       desc("glovebox_garbage_jobs", "Jobs with objects in the bucket that are to be looked at, when their record has expired at the latest."),
		tasks:         desc("glovebox_queue_tasks", "Tasks in a queue: waiting (due), active (a process has them), delayed (due later).", "queue", "state"),
		oldest:        desc("glovebox_queue_oldest_seconds", "How long the oldest waiting task of a queue waits; 0 if none does.", "queue"),
	}
	r.MustRegister(m)
	return m
}

// Describe is of prometheus.Collector.
func (m *Queues) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		m.up, m.queued, m.scheduled, m.held, m.waiting, m.backlog, m.overTenants, m.unserved, m.backlogOldest, m.running, m.deliveries, m.garbage, m.tasks, m.oldest,
	} {
		to <- d
	}
}

// Collect is of prometheus.Collector.
func (m *Queues) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	d, full, err := m.look()
	if err != nil { // why, is in glovebox_redis_errors_total
		gauge(m.up, 0)
		return
	}
	if full != nil {
		gauge(m.up, 0)
	} else {
		gauge(m.up, 1)
	}
	gauge(m.queued, float64(d.Queued))
	gauge(m.scheduled, float64(d.Scheduled))
	gauge(m.held, float64(d.Held))
	gauge(m.waiting, float64(d.OverWindow), "over_window")
	gauge(m.waiting, float64(d.Queued-d.OverWindow), "within_window")
	gauge(m.backlog, float64(d.Backlog))
	gauge(m.overTenants, float64(d.OverTenants))
	gauge(m.unserved, float64(d.Unserved))
	gauge(m.backlogOldest, d.BacklogOldest.Seconds())
	gauge(m.running, float64(d.Running))
	gauge(m.deliveries, float64(d.Deliveries))
	gauge(m.garbage, float64(d.Garbage))
	for _, q := range d.Queues {
		gauge(m.tasks, float64(q.Waiting), q.Name, "waiting")
		gauge(m.tasks, float64(q.Active), q.Name, "active")
		gauge(m.tasks, float64(q.Delayed), q.Name, "delayed")
		gauge(m.oldest, q.Oldest.Seconds(), q.Name)
	}
}

// Watch has the metrics come from these records.
func (m *Queues) Watch(records queueRecords) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records = records
}

func (m *Queues) look() (_ record.Depth, full, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records == nil {
		return record.Depth{}, nil, errNotReached
	}
	if time.Since(m.at) > lookFor {
		ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
		defer cancel()
		m.full = m.records.Ping(ctx)
		m.last, m.err = m.records.Depth(ctx)
		m.at = time.Now()
	}
	return m.last, m.full, m.err
}
