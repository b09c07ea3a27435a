package worker

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-run/glovebox/internal/metrics"
)

// TestOpenSince: a job met a pause when the two overlap, whichever began first.
func TestOpenSince(t *testing.T) {
	t.Parallel()
	w := &Worker{Config: Config{Log: slog.New(slog.DiscardHandler), Metrics: metrics.NewWorker(prometheus.NewRegistry(), nil)}, consumer: &consumer{forGood: true}, sessions: &sessionConsumer{}}
	why := errors.New("podman is away")
	before := time.Now()
	if got := w.breaker.openSince(before); got != nil {
		t.Errorf("before any pause: got %v", got)
	}
	w.pause(why)
	within := time.Now()
	for name, began := range map[string]time.Time{"before": before, "within": within} {
		if got := w.breaker.openSince(began); !errors.Is(got, why) {
			t.Errorf("in the pause, a job started %s it: got %v", name, got)
		}
	}
	if err := w.resume(); err != nil {
		t.Fatal(err)
	}
	for name, began := range map[string]time.Time{"before": before, "within": within} {
		if got := w.breaker.openSince(began); !errors.Is(got, why) {
			t.Errorf("after the pause, a job started %s it: got %v", name, got)
		}
	}
	if got := w.breaker.openSince(time.Now()); got != nil {
		t.Errorf("a job started after the pause: got %v", got)
	}
}
