package record

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestSimulate runs random schedules of everything that changes a record, on a real Redis
// with the real scripts: apis that submit, cancel, purge, send batches, sweep and deliver;
// workers that start, end and hand back jobs, and beat. One command runs at a time. A seed
// decides whose it is, whether its answer gets lost, and which process dies before or after
// it. Clocks differ between processes and jump. After each schedule all that was accepted
// must come to an end, and the invariants of ADR 1 must hold (simcheck_test.go).
//
//	GLOVEBOX_SIMULATE=100000      so many schedules (make simulate-record)
//	GLOVEBOX_SIMULATE_SEED=17     only the schedule of this seed, with what happened in it
func TestSimulate(t *testing.T) {
	t.Parallel()
	if text := os.Getenv("GLOVEBOX_SIMULATE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("GLOVEBOX_SIMULATE_SEED is %q: want a number", text)
		}
		w := newWorld(t, simRedis(t), seed)
		problem := w.schedule()
		t.Logf("what happened:\n%s", strings.Join(w.trace, "\n"))
		if problem != nil {
			t.Fatal(problem)
		}
		return
	}
	schedules := 20 // in test-host, with the race detector; one command runs at a time, so that test-record's find more
	if text := os.Getenv("GLOVEBOX_SIMULATE"); text != "" {
		var err error
		if schedules, err = strconv.Atoi(text); err != nil || schedules < 1 {
			t.Fatalf("GLOVEBOX_SIMULATE is %q: want a number of schedules", text)
		}
	}
	first := uint64(time.Now().UnixNano())                     //nolint:gosec // a time is no negative number
	t.Logf("seeds %d to %d", first, first+uint64(schedules)-1) //nolint:gosec // checked above
	var next, steps atomic.Int64
	var sides sync.WaitGroup
	start := time.Now()
	for range runtime.GOMAXPROCS(0) + 1 { // one Redis each: a schedule has it for itself, and each waits for the other at times
		server := simRedis(t)
		sides.Go(func() {
			for !t.Failed() {
				n := next.Add(1) - 1
				if n >= int64(schedules) {
					return
				}
				seed := first + uint64(n) //nolint:gosec // not negative
				w := newWorld(t, server, seed)
				if problem := w.schedule(); problem != nil {
					t.Errorf("seed %d: %v\nGLOVEBOX_SIMULATE_SEED=%d shows it; its last steps:\n%s", seed, problem, seed, tail(w.trace, 60))
				}
				steps.Add(int64(w.steps))
				if n%5000 == 4999 {
					t.Logf("%d schedules, %d commands, %s", n+1, steps.Load(), time.Since(start).Round(time.Second))
				}
			}
		})
	}
	sides.Wait()
	t.Logf("%d schedules, %d commands in them, %s", schedules, steps.Load(), time.Since(start).Round(time.Second))
}

// simRedis is a Redis for schedules: what it would write to a disk nobody asks for.
func simRedis(t *testing.T) *gbtest.RedisServer {
	t.Helper()
	server := gbtest.Redis(t)
	opts, err := redis.ParseURL(server.Admin())
	if err != nil {
		t.Fatal(err)
	}
	operator := redis.NewClient(opts)
	defer operator.Close()
	if err := operator.ConfigSet(t.Context(), "appendonly", "no").Err(); err != nil {
		t.Fatal(err)
	}
	return server
}

func tail(lines []string, n int) string { return strings.Join(lines[max(0, len(lines)-n):], "\n") }

// chance is true in one of n cases.
func (w *world) chance(n int) bool { return w.rng.IntN(n) == 0 }

func pick[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%6.1fs ", w.offset.Seconds())+fmt.Sprintf(format, args...))
}
