// Package metrics is what the api and the worker count and measure, for Prometheus.
//
// Each type here is the metrics of one part: [Records], [Redis], [S3], [HTTP],
// [Deliverer], [Queues] and [Worker]. A part's constructor registers what it has; the
// commands wire parts to metrics, and [Serve] answers GET /metrics at an address of its
// own, which tenants can't reach.
//
// A label's value is one of a set that is known beforehand: a status, a priority, a
// route, a class of failures, a runtime of this build. Nothing that a tenant chose, and
// no tenant, becomes one. docs/operations.md lists every metric; a test compares.
package metrics
