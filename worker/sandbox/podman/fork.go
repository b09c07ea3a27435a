package podman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/internal/session"
)

// fork is a session's sandbox as it was between two turns, for one other session to go on from: it has a file, and a key, of its own.
type fork struct {
	paused
	used atomic.Bool // by a program, or closed
}

// Bytes is [sandbox.Fork.Bytes].
func (f *fork) Bytes() int64 { return f.state.bytes }

// Close is [sandbox.Fork.Close]. A program that goes on from the fork closes it itself.
func (f *fork) Close() {
	if !f.used.Swap(true) {
		f.state.close()
	}
}

// errForkUsed is why a second program can't begin with a fork.
var errForkUsed = errors.New("the fork is another's, or closed")

// fork writes the sandbox to the disk and gives the session that. The sandbox goes on, or is lost: then the session ends as it would else.
func (p *Sandboxes) fork(ctx context.Context, w *instance, task session.Task, interrupt <-chan struct{}) error {
	listener, ok := task.Program.Turns.(watchedTurns).Turns.(sandbox.Forks)
	if !ok {
		return errors.New("a fork was asked for by what can't be given one")
	}
	state, err := p.pause(ctx, w, boundsOf(task.Program.Limits).with(task.PreloadMB).memory, interrupt)
	if err != nil {
		listener.Forked(nil, err)
		return nil
	}
	if err := w.session.Stay(ctx, pauseTimeout); err != nil {
		state.state.close()
		listener.Forked(nil, err)
		return fmt.Errorf("the session doesn't go on: %w", err)
	}
	listener.Forked(&fork{paused: *state}, nil)
	return nil
}

// forkPaused gives the session a fork of what it is on the disk: another file, of another key.
func forkPaused(dir string, turns sandbox.Turns, from *paused) {
	listener, ok := turns.(sandbox.Forks)
	if !ok {
		return
	}
	state, err := newSealedFile(dir, from.state.disk, from.state.most)
	if err == nil {
		opened, sealing := io.Pipe()
		go func() { sealing.CloseWithError(from.state.copyTo(sealing)) }() // nil is the end of the file
		err = state.fill(opened)
		opened.Close()
		if err != nil {
			state.close()
		}
	}
	if err != nil {
		listener.Forked(nil, err)
		return
	}
	f := &fork{paused: *from}
	f.state = state
	listener.Forked(f, nil)
}

// runFork runs a program that goes on from a fork. It begins as a session that is paused: its sandbox is started for its first turn.
func (p *Sandboxes) runFork(ctx context.Context, program sandbox.Program, sink sandbox.Sink) (sandbox.Outcome, error) {
	f, ok := program.From.(*fork)
	if !ok || f.used.Swap(true) {
		return sandbox.Outcome{}, fmt.Errorf("%w: %w", sandbox.ErrStateLost, errForkUsed)
	}
	state := f.paused
	if plan := &state.plan; !plan.reusable || !plan.outlives(ctx, time.Now()) {
		plan.reusable, plan.jobID, plan.epoch, plan.backstop = false, program.JobID, program.Epoch, p.backstop(ctx)
	}
	was := state.was.Task()
	task := session.Task{Program: program, Sink: sink, PreloadMB: was.PreloadMB, Preloaded: was.Preloaded, Become: was.Become}
	w, first, err := p.awaitTurn(ctx, task, &state)
	if w == nil {
		return sandbox.Outcome{}, err
	}
	return p.goOn(ctx, w, task, func(task session.Task) error { return w.session.GoOnTurns(ctx, task, first, p.config.StartTimeout) })
}
