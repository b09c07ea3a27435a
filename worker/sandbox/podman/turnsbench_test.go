package podman_test

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// zeros are bytes without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// BenchmarkTurns is what a turn costs beside its code, in a session that has done nothing for a moment: the median.
func BenchmarkTurns(b *testing.B) {
	for _, runtime := range []string{"python", "node", "typescript", "bash"} {
		for name, pauseBytes := range map[string]int64{"": 0, "/pausable": 1 << 30} {
			b.Run(runtime+name, func(b *testing.B) {
				sandboxes := open(b)
				if pauseBytes > 0 {
					sandboxes = withPauses(b, "bench-"+runtime, pauseBytes)
				}
				p := sessionOf(b, runtime)
				s := &timed{}
				for range b.N + 1 {
					s.todo = append(s.todo, step{code: cmp.Or(map[string]string{"bash": "echo 2"}[runtime], "1 + 1")})
				}
				p.Turns = s
				if o, err := sandboxes.Run(b.Context(), p, &kept{}); err != nil || o.Lost {
					b.Fatal(err)
				}
				took := slices.Sorted(slices.Values(s.took[1:]))
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/turn")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// timed is steps with a moment before each, and how long each took.
type timed struct {
	steps
	began time.Time
	took  []time.Duration
}

func (s *timed) Next(ctx context.Context) (sandbox.Turn, bool, error) {
	<-time.After(30 * time.Millisecond)
	s.began = time.Now()
	return s.steps.Next(ctx)
}

func (s *timed) Ended(ctx context.Context, o sandbox.TurnOutcome) error {
	s.took = append(s.took, time.Since(s.began))
	return s.steps.Ended(ctx, o)
}
