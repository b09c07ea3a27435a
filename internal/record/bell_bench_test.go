package record

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
// are beside those that wait for the bell. Each is a Store and a server of its own.
func BenchmarkPickUp(b *testing.B) {
	for _, workers := range []int{1, 10, 100, 1000} {
		for _, poll := range []time.Duration{25 * time.Millisecond, 100 * time.Millisecond} {
			b.Run(fmt.Sprintf("workers=%d/poll=%s", workers, poll), func(b *testing.B) { pickUp(b, workers, poll, false) })
		}
		b.Run(fmt.Sprintf("workers=%d/bell", workers), func(b *testing.B) { pickUp(b, workers, time.Second, true) })
	}
}

func pickUp(b *testing.B, workers int, interval time.Duration, bell bool) {
	b.Helper()
	redis := gbtest.Redis(b)
	took := make(chan time.Time, 1)
	handle := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { took <- time.Now(); return nil })
	config := ServerConfig(2, JobQueues(), interval, slog.New(slog.DiscardHandler))
	var s *Store
	for range workers {
		var err error
		if s, err = Open(b.Context(), Config{URL: redis.URL()}); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close() })
		var server interface {
			Start(asynq.Handler) error
			Shutdown()
		} = s.Server(config, nil)
		if !bell {
			server.Shutdown()
			server = asynq.NewServerFromRedisClient(s.rdb, config)
		}
		if err := server.Start(handle); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(server.Shutdown)
	}
	time.Sleep(time.Second) // all have begun

	// What an idle fleet costs.
	const idle = 4 * time.Second
	before := s.counters(b)
	time.Sleep(idle)
	after := s.counters(b)

	var delays []time.Duration
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		time.Sleep(time.Duration(n%37) * time.Millisecond) // not in step with whoever polls
		b.StartTimer()
		began := time.Now()
		if err := s.enqueue(b.Context(), runTask("job", n, job.Normal, time.Time{})); err != nil {
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

func (s *Store) counters(b *testing.B) (c counters) {
	b.Helper()
	text := s.rdb.InfoMap(b.Context(), "cpu", "stats").Val()
	number := func(section, name string) float64 {
		n, err := strconv.ParseFloat(strings.TrimSpace(text[section][name]), 64)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	return counters{number("CPU", "used_cpu_user") + number("CPU", "used_cpu_sys"), number("Stats", "total_commands_processed")}
}
