package simulation

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// sandboxes are those of all workers. What runs in them sleeps for as long as was drawn for its job.
type sandboxes struct {
	image string // the one that is there
	began time.Time

	mu   sync.Mutex
	jobs map[string]simulated // by id
	runs []run
	over map[string]int // how often a job has run to its end
	busy int            // that run now
}

// simulated is a job as it was drawn.
type simulated struct {
	tenant int
	asked  time.Duration // since began
	takes  time.Duration
}

var _ worker.Sandboxes = (*sandboxes)(nil)

func newSandboxes(image string) *sandboxes {
	return &sandboxes{image: image, jobs: map[string]simulated{}, over: map[string]int{}}
}

// expect says what a job will be, before it is submitted.
func (s *sandboxes) expect(id string, j simulated) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[id] = j
}

// Run sleeps.
func (s *sandboxes) Run(ctx context.Context, p sandbox.Program, _ sandbox.Sink) (sandbox.Outcome, error) {
	ran := sandbox.Outcome{Status: job.Succeeded, LimitsEnforced: "hard", OCIRuntime: "runsc", ImageDigest: digest}
	if p.JobID == worker.ProbeID {
		return ran, nil
	}
	s.mu.Lock()
	j, known := s.jobs[p.JobID]
	s.busy++
	s.mu.Unlock()
	began := time.Now()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy--
	}()
	if !known {
		return sandbox.Outcome{}, fmt.Errorf("nobody has submitted job %s", p.JobID)
	}
	select {
	case <-time.After(j.takes):
	case <-ctx.Done():
		return sandbox.Outcome{}, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over[p.JobID]++
	s.runs = append(s.runs, run{j.tenant, j.asked, began.Sub(s.began), time.Since(s.began)})
	return ran, nil
}

const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// Image has one image alone.
func (s *sandboxes) Image(_ context.Context, name string) (string, error) {
	if name != s.image {
		return "", fmt.Errorf("image %s: %w", name, sandbox.ErrNoImage)
	}
	return digest, nil
}

// Reap finds nothing: a sandbox that sleeps ends with its worker.
func (s *sandboxes) Reap(context.Context, func(string) bool) (int, error) { return 0, nil }

// WarmOf and PreloadedOf: none waits.
func (s *sandboxes) WarmOf(string) int      { return 0 }
func (s *sandboxes) PreloadedOf(string) int { return 0 }

// Ping answers.
func (s *sandboxes) Ping(context.Context) error { return nil }
