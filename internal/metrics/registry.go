package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/glovebox-run/glovebox/job"
)

// NewRegistry returns a registry that has what every process has: memory, CPU,
// goroutines, and the version.
func NewRegistry(version string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "glovebox_build_info", Help: "Always 1; the label says which version this process is.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	r.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// others is the label of whatever is not in a set that is known beforehand.
const others = "other"

// oneOf returns value if it is known, and "other" if not.
func oneOf(known []string, value string) string {
	if slices.Contains(known, value) {
		return value
	}
	return others
}

// runtimeLabel is the label of a job's runtime: "image" where the job brought its own.
func runtimeLabel(known []string, name string) string {
	if name == "" {
		return "image"
	}
	return oneOf(known, name)
}

var priorities = []string{string(job.High), string(job.Normal), string(job.Low)}

// Buckets in seconds. What is measured lies between the two ends: 8 ms of a start from a
// warm pool, 5 minutes of a job at its longest.
var (
	callBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	runBuckets  = []float64{.008, .016, .03, .06, .125, .25, .5, 1, 2, 5, 10, 20, 30, 60, 120, 300}
	waitBuckets = []float64{.008, .016, .03, .06, .125, .25, .5, 1, 2, 5, 10, 30, 60, 300, 900, 3600}
	// A delivery may be tried for more than a day.
	deliveryBuckets = []float64{.03, .06, .125, .25, .5, 1, 2, 5, 10, 60, 300, 1800, 3600, 6 * 3600, 24 * 3600, 48 * 3600}
)
