package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// BenchmarkAccept compares, turn by turn in one run and at the same concurrency, how fast
// one api process accepts jobs with what asynq's own Enqueue does with the same payload in
// the same kind of Redis: as single requests, and as batches in JSON Lines.
func BenchmarkAccept(b *testing.B) {
	for _, concurrency := range []int{1, 8, 32} {
		b.Run(fmt.Sprint(concurrency), func(b *testing.B) {
			p := startAPIProcess(b)
			tasks := asynq.NewClient(asynqOptions(b, gbtest.Redis(b)))
			defer tasks.Close()
			spec := job.Spec{Runtime: "python", Source: "print('hello')"}
			payload := []byte(`{"runtime":"python","source":"print('hello')"}`)
			bare := func(n int) error {
				for range n {
					if _, err := tasks.EnqueueContext(b.Context(), asynq.NewTask("run", payload)); err != nil {
						return err
					}
				}
				return nil
			}
			single := func(n int) error {
				for range n {
					if _, err := p.client.Submit(b.Context(), spec); err != nil {
						return err
					}
				}
				return nil
			}
			batch := func(n int) error {
				_, err := p.client.SubmitBatch(b.Context(), producer.BatchOptions{}, func(yield func(job.Spec, error) bool) {
					for range n {
						if !yield(spec, nil) {
							return
						}
					}
				})
				return err
			}
			empty := redisBytes(b, p)
			var asynqTime, singleTime, batchTime time.Duration
			var asynqJobs, singleJobs, batchJobs int
			for b.Loop() {
				asynqJobs += rate(b, concurrency, 200, &asynqTime, bare)
				singleJobs += rate(b, concurrency, 50, &singleTime, single)
				batchJobs += rate(b, concurrency, 1000, &batchTime, batch)
			}
			perSecond := func(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }
			reference := perSecond(asynqJobs, asynqTime)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(reference, "asynq-jobs/s")
			b.ReportMetric(perSecond(singleJobs, singleTime), "single-jobs/s")
			b.ReportMetric(perSecond(batchJobs, batchTime), "batch-jobs/s")
			b.ReportMetric(perSecond(singleJobs, singleTime)/reference, "single-ratio")
			b.ReportMetric(perSecond(batchJobs, batchTime)/reference, "batch-ratio")
			b.ReportMetric(float64(redisBytes(b, p)-empty)/float64(singleJobs+batchJobs), "redis-bytes/job")
		})
	}
}

// rate has so many do n each at once, and returns how many that are.
func rate(b *testing.B, concurrency, n int, total *time.Duration, do func(n int) error) int {
	b.Helper()
	var all sync.WaitGroup
	var failed atomic.Value
	began := time.Now()
	for range concurrency {
		all.Go(func() {
			if err := do(n); err != nil {
				failed.Store(err)
			}
		})
	}
	all.Wait()
	*total += time.Since(began)
	if err := failed.Load(); err != nil {
		b.Fatal(err)
	}
	return concurrency * n
}

func asynqOptions(b *testing.B, r *gbtest.RedisServer) asynq.RedisConnOpt {
	b.Helper()
	o, err := asynq.ParseRedisURI(r.Admin()) // a queue of its own
	if err != nil {
		b.Fatal(err)
	}
	return o
}

// redisBytes is what Redis has in use.
func redisBytes(b *testing.B, p *apiProcess) (n int64) {
	b.Helper()
	info, err := p.Records.Redis().Info(context.Background(), "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "used_memory:")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		b.Fatal(err)
	}
	return n
}
