package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-run/glovebox/job"
)

// Worker measures what a worker runs.
type Worker struct {
	registerer                            prometheus.Registerer
	runtimes                              []string
	startup, run                          *prometheus.HistogramVec
	cpu                                   *prometheus.CounterVec
	artifacts, bytes                      *prometheus.CounterVec
	failures, lacked, testReads, checkers *prometheus.CounterVec
	running, slots, paused, drained       prometheus.Gauge
	memoryReserved, memoryAvailable       prometheus.Gauge
	testCache                             prometheus.Gauge
	pauses                                *prometheus.CounterVec
	pauseTime                             *prometheus.HistogramVec
	pausedSessions, pausedBytes           prometheus.Gauge
}

// Failure is why a try at a job failed on us.
type Failure string

// The classes of failures.
const (
	FailSandbox Failure = "sandbox" // Podman, runsc or the agent
	FailStore   Failure = "store"   // the bucket
	FailOther   Failure = "other"
)

// NewWorker registers the metrics of a worker. runtimes are the names that may become
// labels; any other is counted as "other", and an image of one's own as "image".
func NewWorker(r prometheus.Registerer, runtimes []string) *Worker {
	runtime := []string{"runtime"}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &Worker{
		registerer: r, runtimes: runtimes,
		startup: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "glovebox_sandbox_startup_seconds", Help: "From the claim of a sandbox, warm (it waited), preloaded (so did the interpreter) or cold, to the program's first instruction, without its compile step.", Buckets: runBuckets,
		}, []string{"runtime", "start"}),
		run: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "glovebox_job_run_seconds", Help: "Wall-clock time of programs, whatever they came to.", Buckets: runBuckets,
		}, runtime),
		cpu: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glovebox_job_cpu_seconds_total", Help: "CPU time of programs; their sandboxes' own is not in it.",
		}, runtime),
		artifacts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glovebox_artifacts_total", Help: "Artifacts that were stored.",
		}, []string{"kind"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glovebox_artifact_bytes_total", Help: "Size of the artifacts that were stored.",
		}, []string{"kind"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glovebox_job_failures_total", Help: "Tries at jobs that failed on us: sandbox (Podman, runsc, the agent), store (the bucket), other.",
		}, []string{"reason"}),
		lacked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glovebox_jobs_not_offered_total", Help: "Jobs that came to a worker which lacks their runtime or image: handed to one that has it (worker), or put off because none lives (nobody).",
		}, []string{"to"}),
		testReads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glovebox_test_cache_reads_total", Help: "Inputs and answers of graded jobs: on the worker's disk (hit), fetched from the bucket (miss), read from it without being kept (uncached); damaged counts files that were fetched once more.",
		}, []string{"result"}),
		checkers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glovebox_checker_sandboxes_total", Help: "Sandboxes of checkers that have a compile step: it was run (anew), or what it had made for an earlier job was unpacked (kept).",
		}, []string{"compiled"}),
		pauses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glovebox_session_pauses_total", Help: "Idle sessions that were to be paused: on the worker's disk (paused), back in memory (resumed), not paused as an execution came (interrupted), not to be paused and so still in memory (stayed), ended while paused, for whatever reason (ended); and forks, which begin on the disk (forked).",
		}, []string{"result"}),
		pauseTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "glovebox_session_pause_seconds", Help: "How long it took to pause a session, or to resume it.", Buckets: runBuckets,
		}, []string{"step"}),
		pausedSessions:  gauge("glovebox_paused_sessions", "Sessions that are paused: they hold no memory."),
		pausedBytes:     gauge("glovebox_paused_sessions_bytes", "Disk that paused sessions take."),
		testCache:       gauge("glovebox_test_cache_bytes", "Disk that the worker's cache of inputs and answers takes."),
		running:         gauge("glovebox_worker_jobs", "Jobs that this worker has in hand."),
		slots:           gauge("glovebox_worker_concurrency", "Jobs that this worker may have in hand."),
		paused:          gauge("glovebox_worker_paused", "1 while this worker takes no jobs because it can run none, else 0."),
		drained:         gauge("glovebox_worker_drained", "1 while an operator has drained this worker, which is paused then, else 0."),
		memoryReserved:  gauge("glovebox_worker_memory_reserved_bytes", "Memory that the jobs which run may use, their sandboxes' own included."),
		memoryAvailable: gauge("glovebox_worker_memory_budget_bytes", "Memory that all sandboxes of this worker may use together."),
	}
	for _, reason := range []Failure{FailSandbox, FailStore, FailOther} {
		m.failures.WithLabelValues(string(reason)) // so that the first one is an increase
	}
	for _, result := range []string{"hit", "miss", "damaged", "uncached"} {
		m.testReads.WithLabelValues(result)
	}
	for _, result := range []string{"paused", "resumed", "interrupted", "stayed", "ended"} {
		m.pauses.WithLabelValues(result)
	}
	for _, compiled := range []string{"anew", "kept"} {
		m.checkers.WithLabelValues(compiled)
	}
	m.lacked.WithLabelValues("worker")
	m.lacked.WithLabelValues("nobody")
	r.MustRegister(m.startup, m.run, m.cpu, m.artifacts, m.bytes, m.failures, m.lacked, m.testReads, m.testCache, m.checkers, m.pauses, m.pauseTime, m.pausedSessions, m.pausedBytes, m.running, m.slots, m.paused, m.drained, m.memoryReserved, m.memoryAvailable)
	return m
}

// Offers says what the worker has to give.
func (m *Worker) Offers(concurrency int, memory int64) {
	m.slots.Set(float64(concurrency))
	m.memoryAvailable.Set(float64(memory))
}

// Took says that the worker has one job more in hand, or with -1 one less.
func (m *Worker) Took(n int) { m.running.Add(float64(n)) }

// Paused says whether the worker is paused.
func (m *Worker) Paused(now bool) { m.paused.Set(oneIf(now)) }

// Drained says whether an operator has drained the worker.
func (m *Worker) Drained(now bool) { m.drained.Set(oneIf(now)) }

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Reserved says that sandboxes take so many bytes more, or if negative, less.
func (m *Worker) Reserved(n int64) { m.memoryReserved.Add(float64(n)) }

// Warm has each scrape ask how many sandboxes of a runtime of this build wait started, and
// in how many of them its interpreter is preloaded. It is to be called once for each.
func (m *Worker) Warm(runtime string, warm, preloaded func() int) {
	m.gaugeOf(runtime, "glovebox_worker_warm_sandboxes", "Sandboxes that wait started, each for one job.", func() float64 { return float64(warm()) })
	m.gaugeOf(runtime, "glovebox_worker_preloaded_sandboxes", "Those of them in which the job's interpreter waits, too.", func() float64 { return float64(preloaded()) })
}

// WarmWanted has each scrape ask how many sandboxes of a runtime of this build are to wait. It is to be called once
// for each.
func (m *Worker) WarmWanted(runtime string, wanted func() int) {
	m.gaugeOf(runtime, "glovebox_worker_warm_wanted", "Sandboxes that are to wait: as programs come and as the operator asked, as far as there is memory.", func() float64 { return float64(wanted()) })
}

// gaugeOf has each scrape ask for a figure of a runtime.
func (m *Worker) gaugeOf(runtime, name, help string, value func() float64) {
	m.registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{"runtime": runtime}}, value))
}

// Snapshot has each scrape ask how large the snapshot is from which a runtime's sandboxes go on, and when it
// was made: 0 bytes where there is none. It is to be called once for each.
func (m *Worker) Snapshot(runtime string, of func() (bytes int64, made time.Time)) {
	m.gaugeOf(runtime, "glovebox_worker_snapshot_bytes", "What the snapshot takes of the worker's memory; 0 where none could be made.", func() float64 {
		bytes, _ := of()
		return float64(bytes)
	})
	m.gaugeOf(runtime, "glovebox_worker_snapshot_age_seconds", "How long ago the snapshot was made; 0 where there is none.", func() float64 {
		bytes, made := of()
		if bytes == 0 {
			return 0
		}
		return time.Since(made).Seconds()
	})
}

// Ran measures a program that came to an outcome; start is how it was started: "cold",
// "warm", "preloaded" or "restored".
func (m *Worker) Ran(runtime, start string, startup time.Duration, u job.Usage, made []job.Artifact) {
	runtime = runtimeLabel(m.runtimes, runtime)
	m.startup.WithLabelValues(runtime, start).Observe(startup.Seconds())
	m.run.WithLabelValues(runtime).Observe(float64(u.WallMS) / 1000)
	m.cpu.WithLabelValues(runtime).Add(float64(max(u.CPUMS, 0)) / 1000) // the agent says so
	for _, a := range made {
		m.artifacts.WithLabelValues(a.Kind).Inc()
		m.bytes.WithLabelValues(a.Kind).Add(float64(a.Size))
	}
}

// Failed counts a try that failed on us.
func (m *Worker) Failed(reason Failure) { m.failures.WithLabelValues(string(reason)).Inc() }

// Lacked counts a job whose runtime or image this worker doesn't offer, and whether a
// worker that does was told.
func (m *Worker) Lacked(told bool) {
	to := "nobody"
	if told {
		to = "worker"
	}
	m.lacked.WithLabelValues(to).Inc()
}

// TestRead counts an input or an answer of a graded job that was opened; result is one of package
// testcache.
func (m *Worker) TestRead(result string) { m.testReads.WithLabelValues(result).Inc() }

// CheckerCompiled counts a sandbox of a checker that has a compile step.
func (m *Worker) CheckerCompiled(kept bool) {
	compiled := "anew"
	if kept {
		compiled = "kept"
	}
	m.checkers.WithLabelValues(compiled).Inc()
}

// TestCache says how many bytes of the disk the cache of these takes.
func (m *Worker) TestCache(bytes int64) { m.testCache.Set(float64(bytes)) }

// SessionPaused counts a session that was written to the disk, and how many bytes it has there.
func (m *Worker) SessionPaused(took time.Duration, bytes int64) {
	m.pauses.WithLabelValues("paused").Inc()
	m.pausedSessions.Inc()
	m.pausedBytes.Add(float64(bytes))
	m.pauseTime.WithLabelValues("pause").Observe(took.Seconds())
}

// SessionForked counts a session that begins on the disk, as what another one was.
func (m *Worker) SessionForked(bytes int64) {
	m.pauses.WithLabelValues("forked").Inc()
	m.pausedSessions.Inc()
	m.pausedBytes.Add(float64(bytes))
}

// SessionStayed counts a session that was not paused: it could not be, or was interrupted as an execution came.
func (m *Worker) SessionStayed(interrupted bool) {
	result := "stayed"
	if interrupted {
		result = "interrupted"
	}
	m.pauses.WithLabelValues(result).Inc()
}

// SessionResumed counts a paused session that goes on.
func (m *Worker) SessionResumed(took time.Duration, bytes int64) {
	m.leftDisk("resumed", bytes)
	m.pauseTime.WithLabelValues("resume").Observe(took.Seconds())
}

// PausedSessionEnded counts a session that ended while it was paused.
func (m *Worker) PausedSessionEnded(bytes int64) { m.leftDisk("ended", bytes) }

func (m *Worker) leftDisk(result string, bytes int64) {
	m.pauses.WithLabelValues(result).Inc()
	m.pausedSessions.Dec()
	m.pausedBytes.Sub(float64(bytes))
}
