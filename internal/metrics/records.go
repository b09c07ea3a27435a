package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// Records counts the transitions of jobs and deliveries that this process made. It is a
// [record.Observer].
type Records struct {
	runtimes   []string
	accepted   *prometheus.CounterVec
	ended      *prometheus.CounterVec
	requeued   *prometheus.CounterVec
	takenBack  prometheus.Counter
	pickup     *prometheus.HistogramVec
	released   *prometheus.HistogramVec
	deliveries *prometheus.CounterVec
	delivery   prometheus.Histogram
	passes     *prometheus.CounterVec
	passTime   *prometheus.GaugeVec
}

var _ record.Observer = (*Records)(nil)

// NewRecords registers the metrics of records. runtimes are the names that may become
// labels; any other is counted as "other", and an image of one's own as "image".
func NewRecords(r prometheus.Registerer, runtimes []string) *Records {
	m := &Records{
		runtimes: runtimes,
		accepted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glovebox_jobs_accepted_total", Help: "Jobs that this process accepted.",
		}, []string{"runtime", "priority"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glovebox_jobs_ended_total", Help: "Jobs that this process brought to a final status: a worker those that it ran, an api those cancelled while queued or given up.",
		}, []string{"runtime", "status"}),
		requeued: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glovebox_jobs_requeued_total", Help: "Jobs given back to the queue, by what that cost them: an attempt, nothing (their worker shut down, or its sessions held the memory they need), or nothing for a day (an outage).",
		}, []string{"cost"}),
		takenBack: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "glovebox_jobs_taken_back_total", Help: "Jobs taken from lost workers.",
		}),
		pickup: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "glovebox_job_pickup_seconds", Help: "From accepted, or from run_at, to taken by a worker, first tries only.", Buckets: waitBuckets,
		}, []string{"priority"}),
		released: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "glovebox_job_queue_seconds", Help: "From released to the queue to taken by a worker, first tries only: the pickup without the time in the tenant's backlog.", Buckets: waitBuckets,
		}, []string{"priority"}),
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glovebox_delivery_attempts_total", Help: "Attempts at webhook deliveries by what they came to: delivered, retry (another attempt is due), failed (the schedule is used up), gone (410).",
		}, []string{"outcome"}),
		delivery: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "glovebox_delivery_seconds", Help: "From a job's end to the delivery of its result, retries included.", Buckets: deliveryBuckets,
		}),
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glovebox_sweeper_failures_total", Help: "Passes of the sweeper that failed and are tried again.",
		}, []string{"pass"}),
		passTime: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "glovebox_sweeper_pass_seconds", Help: "How long the last pass of the sweeper took; 0 where another api made it.",
		}, []string{"pass"}),
	}
	// So that the first one of each is an increase.
	for _, cost := range []record.Cost{record.CostAttempt, record.CostNothing, record.CostOutage} {
		m.requeued.WithLabelValues(string(cost))
	}
	for _, runtime := range append([]string{"image", others}, runtimes...) {
		m.ended.WithLabelValues(runtime, string(job.InternalError))
	}
	for _, outcome := range []string{"delivered", "retry", "failed", "gone"} {
		m.deliveries.WithLabelValues(outcome)
	}
	for _, pass := range record.Passes() {
		m.passes.WithLabelValues(pass)
		m.passTime.WithLabelValues(pass)
	}
	r.MustRegister(m.accepted, m.ended, m.requeued, m.takenBack, m.pickup, m.released, m.deliveries, m.delivery, m.passes, m.passTime)
	return m
}

// Accepted counts a new job.
func (m *Records) Accepted(runtime string, priority job.Priority) {
	m.accepted.WithLabelValues(runtimeLabel(m.runtimes, runtime), oneOf(priorities, string(priority))).Inc()
}

// Started measures how long a job waited. Of later tries nobody would know how much of
// the wait was a try before.
func (m *Records) Started(j record.Record) {
	if j.Attempts == 1 && j.Epoch == 1 {
		priority := oneOf(priorities, string(j.Priority))
		m.pickup.WithLabelValues(priority).Observe(j.Queued().Seconds())
		m.released.WithLabelValues(priority).Observe(max(j.Started.Sub(j.Released), 0).Seconds())
	}
}

// Requeued counts a job that went back to the queue.
func (m *Records) Requeued(cost record.Cost) {
	m.requeued.WithLabelValues(string(cost)).Inc()
}

// TakenBack counts a job of a lost worker.
func (m *Records) TakenBack() { m.takenBack.Inc() }

// Ended counts an outcome.
func (m *Records) Ended(runtime string, status job.Status) {
	m.ended.WithLabelValues(runtimeLabel(m.runtimes, runtime), string(status)).Inc()
}

// Attempted counts an attempt at a delivery, and measures one that was the last.
func (m *Records) Attempted(d record.Delivery, state record.DeliveryState, now time.Time) {
	outcome := string(state)
	if state == record.Pending {
		outcome = "retry"
	}
	m.deliveries.WithLabelValues(outcome).Inc()
	if state == record.Delivered {
		m.delivery.Observe(max(now.Sub(d.Created), 0).Seconds())
	}
}

// PassEnded says how long a pass of the sweeper took.
func (m *Records) PassEnded(pass string, took time.Duration) {
	m.passTime.WithLabelValues(pass).Set(took.Seconds())
}

// PassFailed counts a failed pass of the sweeper.
func (m *Records) PassFailed(pass string) { m.passes.WithLabelValues(pass).Inc() }
