package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// runTurns has the agent execute what comes, until nothing will. Between two turns it waits as long as the context allows, or
// the sandbox lasts.
func (s *Session) runTurns(ctx context.Context, sendTimeout time.Duration) error {
	s.begun = true // Next gives each turn once
	return s.GoOnTurns(ctx, s.task, nil, sendTimeout)
}

// GoOnTurns is Serve of a session that goes on: with first, if there is one, then with what comes. It fails with a *PauseError, too.
func (s *Session) GoOnTurns(ctx context.Context, task Task, first *sandbox.Turn, sendTimeout time.Duration) error {
	s.task = task
	turns := task.Program.Turns
	for {
		if first == nil {
			t, ok, err := s.nextTurn(ctx, turns)
			if err != nil {
				return err
			}
			if !ok {
				return s.endTests(ctx)
			}
			first = &t
		}
		t := *first
		first = nil
		if t.Pause || t.Fork {
			return &PauseError{t.Fork, t.Interrupt}
		}
		outcome, err := s.turn(ctx, t, sendTimeout)
		if err != nil || s.Outcome.Lost {
			return err
		}
		if err := turns.Ended(ctx, outcome); err != nil {
			return err
		}
	}
}

// nextTurn waits for a turn. A sandbox that ends meanwhile ends the wait: nobody would notice else.
func (s *Session) nextTurn(ctx context.Context, turns sandbox.Turns) (sandbox.Turn, bool, error) {
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-s.gone:
			cancel(ErrNoEnd)
		case <-waiting.Done():
		}
	}()
	t, ok, err := turns.Next(waiting)
	if cause := context.Cause(waiting); err != nil && ctx.Err() == nil && cause != nil {
		err = cause
	}
	cancel(nil)
	<-watched
	switch {
	case err != nil:
		return sandbox.Turn{}, false, fmt.Errorf("wait for a turn: %w", err)
	case ok && bytes.IndexByte(t.Code, 0) >= 0:
		return sandbox.Turn{}, false, errors.New("a turn's code has a NUL")
	}
	return t, ok, nil
}

// turn has one piece of code executed, and passes on what it makes. If the sandbox is lost with it, the session's
// Outcome is the turn's.
func (s *Session) turn(ctx context.Context, t sandbox.Turn, sendTimeout time.Duration) (sandbox.TurnOutcome, error) {
	s.setTest("")
	s.lastStderr, s.testBegan, s.collectWait = 0, time.Now(), 0
	s.Outcome.Skipped, s.Outcome.SkippedTotal, s.Outcome.ShownLeftOut, s.interrupted = nil, 0, 0, false
	s.task.Sink = t.Sink
	if err := s.sendTurn(ctx, t, sendTimeout); err != nil {
		return sandbox.TurnOutcome{}, s.whyUnsent(ctx, err)
	}
	limit := t.Wall + grace
	if _, err := s.awaitTest(ctx, limit); err != nil {
		return sandbox.TurnOutcome{}, err
	}
	ended := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		interrupt, restart := t.Interrupt, t.Restart
		for {
			select { // if the stream has broken, the reader knows why
			case <-interrupt:
				_, interrupt = s.out.Write(agentwire.TypeKill, nil), nil
			case <-restart:
				_, restart = s.out.Write(agentwire.TypeRestart, nil), nil
			case <-ended:
				return
			}
		}
	}()
	overdue, err := s.run(ctx, limit)
	close(ended)
	<-stopped
	if overdue {
		s.Outcome.Lost = true
	}
	if err != nil || overdue {
		return sandbox.TurnOutcome{}, err
	}
	if err := s.collectTurn(ctx); err != nil {
		return sandbox.TurnOutcome{}, err
	}
	o := s.Outcome
	return sandbox.TurnOutcome{
		TestOutcome: o.Test(), Limit: o.Limit, StdoutTruncated: o.StdoutTruncated, StderrTruncated: o.StderrTruncated,
		ShownLeftOut: o.ShownLeftOut, Skipped: o.Skipped, SkippedTotal: o.SkippedTotal,
		StateLost: s.stateLost, LostContexts: s.lostContexts, Interrupted: s.interrupted,
		LimitsEnforced: o.LimitsEnforced, OCIRuntime: o.OCIRuntime, Snapshot: o.Snapshot,
	}, nil
}

// sendTurn tells the agent the next turn, and closes the stream on one that takes it too slowly.
func (s *Session) sendTurn(ctx context.Context, t sandbox.Turn, timeout time.Duration) error {
	s.mu.Lock()
	s.check.NextTurn(t.Contexts)
	s.mu.Unlock()
	overdue := time.AfterFunc(timeout, s.Abort)
	defer overdue.Stop()
	told := agentwire.Turn{
		WallMS: t.Wall.Milliseconds(), Context: t.Context.Name, Generation: t.Context.Generation, Language: t.Context.Language, Directory: t.Context.Directory, Contexts: t.Contexts, Anew: t.Anew,
	}
	s.out.Hold()
	if err := s.out.WriteJSON(agentwire.TypeTurn, told); err != nil {
		return err
	}
	if err := s.sendFiles(ctx, t.Files, func() { overdue.Stop() }, func() { overdue.Reset(timeout) }); err != nil {
		return err
	}
	if err := s.out.WriteChunks(agentwire.TypeStdinData, t.Code); err != nil {
		return err
	}
	if err := s.out.Write(agentwire.TypeGo, nil); err != nil {
		return err
	}
	return s.out.Release()
}

// collectTurn passes on the files that the turn has changed.
func (s *Session) collectTurn(ctx context.Context) error {
	for {
		e, err := s.next(ctx)
		if err != nil {
			return fmt.Errorf("wait for a turn's artifacts: %w", err)
		}
		switch message := e.message.(type) {
		case agentwire.ArtifactBegin:
			err = s.artifact(ctx, message)
		case agentwire.Skipped:
			s.Outcome.Skipped = append(s.Outcome.Skipped, job.Skipped{Name: message.Name, Reason: message.Reason})
		case agentwire.Turned:
			s.Outcome.SkippedTotal = message.SkippedTotal
			return nil
		default:
			err = s.unexpected(e)
		}
		if err != nil {
			return err
		}
	}
}
