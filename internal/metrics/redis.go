package metrics

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// Redis measures the calls of a Redis client. It is a hook of go-redis.
type Redis struct {
	seconds prometheus.Histogram
	errors  *prometheus.CounterVec
}

var _ redis.Hook = (*Redis)(nil)

// NewRedis registers the metrics of Redis' client.
func NewRedis(r prometheus.Registerer) *Redis {
	m := &Redis{
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "glovebox_redis_call_seconds", Help: "Calls of Redis, a pipeline being one, answered or not.", Buckets: callBuckets,
		}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glovebox_redis_errors_total", Help: "Calls of Redis that failed: timeout, connection (no way to it), or refused (it answered an error: it loads, is out of memory, a replica, …).",
		}, []string{"reason"}),
	}
	for _, reason := range []string{"timeout", "connection", "refused"} {
		m.errors.WithLabelValues(reason) // so that the first one is an increase
	}
	r.MustRegister(m.seconds, m.errors)
	return m
}

// DialHook leaves dialling as it is: a call that can't dial fails, and is counted.
func (m *Redis) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook measures a call.
func (m *Redis) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmd)
		m.called(began, err)
		return err
	}
}

// ProcessPipelineHook measures a pipeline.
func (m *Redis) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmds)
		m.called(began, err)
		return err
	}
}

func (m *Redis) called(began time.Time, err error) {
	m.seconds.Observe(time.Since(began).Seconds())
	if reason := redisReason(err); reason != "" {
		m.errors.WithLabelValues(reason).Inc()
	}
}

// redisReason is the class of a failure, or "" for what is none: an answer that there is
// nothing, a script that is about to be loaded, a question that a server is too old for
// (go-redis asks some of each connection), a caller who left.
func redisReason(err error) string {
	var answer redis.Error // also redis.Nil
	var network net.Error
	switch {
	case err == nil, errors.Is(err, redis.Nil), errors.Is(err, context.Canceled):
		return ""
	case errors.As(err, &answer):
		if said := err.Error(); strings.HasPrefix(said, "NOSCRIPT ") || strings.HasPrefix(said, "ERR unknown ") {
			return ""
		}
		return "refused"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "timeout"
	}
	return "connection"
}
