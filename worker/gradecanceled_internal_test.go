package worker

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// cancels has one sandbox that a program ends after five seconds, and is canceled in the next.
type cancels struct {
	Sandboxes
	cancel context.CancelFunc
	made   int
}

func (c *cancels) Image(context.Context, string) (string, error) { return "sha256:", nil }

func (c *cancels) Run(ctx context.Context, p sandbox.Program, _ sandbox.Sink) (sandbox.Outcome, error) {
	if c.made++; c.made > 1 {
		c.cancel()
		<-ctx.Done()
		return sandbox.Outcome{Usage: job.Usage{WallMS: 7, MemoryPeakBytes: 1}}, ctx.Err()
	}
	if _, _, err := p.Tests.Next(ctx); err != nil {
		return sandbox.Outcome{}, err
	}
	return sandbox.Outcome{Status: job.OutOfMemory, Lost: true, Compile: &job.Compile{}, Usage: job.Usage{WallMS: 5000, CPUMS: 4000, MemoryPeakBytes: 2}}, nil
}

// TestGradeCanceledCounts: a submission that is canceled in its second sandbox costs what it used in both.
func TestGradeCanceledCounts(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &Worker{Config: Config{Sandboxes: &cancels{cancel: cancel}, Log: slog.New(slog.DiscardHandler), SpoolDir: t.TempDir()}}
	spec := job.Spec{Groups: []job.Group{{OnReject: "continue"}}, Tests: []job.Test{{Name: "1", Answer: "a"}, {Name: "2", Answer: "a"}}}
	_, o, err := w.grade(ctx, record.Record{}, spec, sandbox.Program{Limits: job.Limits{WallMS: 1000, CPUMS: 1000}})
	if want := (job.Usage{WallMS: 5007, CPUMS: 4000, MemoryPeakBytes: 2}); !errors.Is(err, context.Canceled) || o.Usage != want {
		t.Errorf("got %+v, %v, want %+v", o.Usage, err, want)
	}
}
