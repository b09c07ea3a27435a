package session

import (
	"context"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// PauseError is what Serve of a session fails with whose Turns ask for a pause, or a fork. All of it stands still, and GoOnTurns goes on with it.
type PauseError struct {
	// Fork is set where a fork is asked for.
	Fork bool
	// Interrupt is closed where the session is wanted after all.
	Interrupt <-chan struct{}
}

func (*PauseError) Error() string { return "the session is to be paused" }

// Pause tells the agent, between two turns, that the session is about to be paused, and makes sure that it has read all that it was
// sent. The stream is closed on one that doesn't answer in time.
func (s *Session) Pause(ctx context.Context, timeout time.Duration) error {
	return s.ask(ctx, agentwire.TypePause, timeout)
}

// Stay tells the agent that the session was not paused. It has to be called where Pause was, and no other session goes on.
func (s *Session) Stay(ctx context.Context, timeout time.Duration) error {
	return s.ask(ctx, agentwire.TypeResume, timeout)
}

func (s *Session) ask(ctx context.Context, what agentwire.Type, timeout time.Duration) error {
	s.mu.Lock()
	s.check.Asked()
	s.mu.Unlock()
	s.ready = false
	timing := s.Outcome.Timing
	defer func() { s.Outcome.Timing = timing }()
	overdue := time.AfterFunc(timeout, s.Abort)
	defer overdue.Stop()
	if err := s.out.Write(what, nil); err != nil {
		return fmt.Errorf("ask the agent: %w", err)
	}
	return s.AwaitReady(ctx, timeout)
}

// State is what a session's end on the host knows of it between two turns.
type State struct {
	check   agentwire.FromAgent
	task    Task
	began   time.Time
	outcome sandbox.Outcome
	spent   int64
}

// State is what another session needs to go on from here.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return State{s.check, s.task, s.began, s.Outcome, s.spent}
}

// Task is what the session served.
func (s State) Task() Task { return s.task }

// GoOn makes a session, whose agent has said nothing yet, that of an agent which goes on where the one of another session was between two
// turns.
func (s *Session) GoOn(ctx context.Context, before State, timeout time.Duration) error {
	if err := s.ask(ctx, agentwire.TypeResume, timeout); err != nil {
		return err
	}
	s.mu.Lock()
	s.check.GoOn(before.check)
	s.mu.Unlock()
	s.task, s.began, s.Outcome = before.task, before.began, before.outcome
	s.begun, s.spent = true, before.spent
	return nil
}

// BoundAgain makes the sandbox's cgroup enforce the program's limits, as Serve does for another.
func (s *Session) BoundAgain() error { return s.Cgroup.Bound(s.task.Program.Limits, s.task.PreloadMB) }
