package queue

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// BenchmarkPickUp is from the submission of a task to its handler, with workers that have
// nothing else to do, and what they cost Redis meanwhile. Workers that poll, as asynq's do,
// are beside those that are notified. Each is a client and a server of its own.
func BenchmarkPickUp(b *testing.B) {
	for _, workers := range []int{1, 10, 100, 1000} {
		for _, poll := range []time.Duration{25 * time.Millisecond, 100 * time.Millisecond} {
			b.Run(fmt.Sprintf("workers=%d/poll=%s", workers, poll), func(b *testing.B) { pickUp(b, workers, poll, false) })
		}
		b.Run(fmt.Sprintf("workers=%d/notified", workers), func(b *testing.B) { pickUp(b, workers, time.Second, true) })
	}
}

func pickUp(b *testing.B, workers int, interval time.Duration, notified bool) {
	b.Helper()
	server := gbtest.Redis(b)
	took := make(chan time.Time, 1)
	handle := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { took <- time.Now(); return nil })
	config := ServerConfig(2, Jobs(), interval, slog.New(slog.DiscardHandler))
	var c *Client
	for range workers {
		c = open(b, server.URL())
		var s interface {
			Start(asynq.Handler) error
			Shutdown()
		} = c.Server(config, nil)
		if !notified {
			s.Shutdown()
			s = asynq.NewServerFromRedisClient(c.rdb, config)
		}
		if err := s.Start(handle); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(s.Shutdown)
	}
	time.Sleep(time.Second) // all have begun

	// What an idle fleet costs.
	const idle = 4 * time.Second
	before := c.counters(b)
	time.Sleep(idle)
	after := c.counters(b)

	var delays []time.Duration
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		time.Sleep(time.Duration(n%37) * time.Millisecond) // not in step with whoever polls
		b.StartTimer()
		began := time.Now()
		if err := c.Enqueue(b.Context(), RunTask("job", n, job.Normal, time.Time{})); err != nil {
			b.Fatal(err)
		}
		delays = append(delays, (<-took).Sub(began))
	}
	b.ReportMetric(100*(after.cpu-before.cpu)/idle.Seconds(), "%CPU-of-Redis")
	b.ReportMetric((after.commands-before.commands)/idle.Seconds(), "commands/s")
	slices.Sort(delays)
	b.ReportMetric(delays[len(delays)/2].Seconds()*1e3, "p50-ms")
	b.ReportMetric(delays[len(delays)*99/100].Seconds()*1e3, "p99-ms")
}

// counters are what Redis has done so far.
type counters struct{ cpu, commands float64 }

func (c *Client) counters(b *testing.B) counters {
	b.Helper()
	text := c.rdb.InfoMap(b.Context(), "cpu", "stats").Val()
	number := func(section, name string) float64 {
		n, err := strconv.ParseFloat(strings.TrimSpace(text[section][name]), 64)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	return counters{number("CPU", "used_cpu_user") + number("CPU", "used_cpu_sys"), number("Stats", "total_commands_processed")}
}

func BenchmarkEnqueue(b *testing.B) {
	c := client(b)
	const tasks = 10_000
	for b.Loop() {
		for range tasks {
			if err := c.Enqueue(b.Context(), RunTask(job.NewID("default"), 1, job.Normal, time.Time{})); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*tasks), "µs/task")
}
