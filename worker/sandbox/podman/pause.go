package podman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/internal/session"
)

// paused is a session's sandbox as it was between two turns. Nothing runs of it: it is a file on the worker's disk.
type paused struct {
	plan   plan
	image  image
	madeOf string // glovebox-runtime's identity of runsc and of the images
	state  *sealedFile
	was    session.State
}

const (
	// pauseTimeout is how long gVisor may take to write a sandbox: 2 GiB onto a busy disk.
	pauseTimeout = 2 * time.Minute
	// resumeTimeout is how long a paused session may take to go on, with all its tries: meanwhile its execution has a slot, and its memory.
	resumeTimeout = 5 * time.Minute
	// maxResumeWait is the longest wait before a paused session is tried to go on once more; the first is 1 s, and each is twice the one before.
	maxResumeWait = 16 * time.Second
	// freeInterval is how often memory is freed that a sandbox has read.
	freeInterval = 10 * time.Millisecond
)

// pausable reports whether sessions can be paused.
func (p *Sandboxes) pausable() bool { return p.config.PauseBytes > 0 }

// pause writes the sandbox to the disk, where it may take so many bytes. The sandbox goes on whatever comes of it, and the caller ends it. It has executed nothing since: all of
// a session stands still between two turns.
func (p *Sandboxes) pause(ctx context.Context, w *instance, most int64, interrupt <-chan struct{}) (_ *paused, err error) {
	if w.unpausable == nil {
		w.unpausable = w.heed()
	}
	if w.unpausable == nil && w.control == nil {
		w.unpausable = errors.New("its worker has no control of the sandbox")
	}
	if w.unpausable != nil {
		return nil, w.unpausable
	}
	state, err := newSealedFile(p.config.PauseDir, &p.pauses, most)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			state.close()
		}
	}()
	control, err := w.controlConn()
	if err != nil {
		return nil, err
	}
	defer control.Close()
	if err := w.session.Pause(ctx, pauseTimeout); err != nil {
		return nil, err
	}
	if err := checkpointInto(ctx, control, state, interrupt); err != nil {
		if errors.Is(err, errNoAnswer) { // an answer that comes later would be taken for that to another call
			w.unpausable = err
		}
		if lost := w.session.Stay(ctx, pauseTimeout); lost != nil {
			return nil, fmt.Errorf("the session doesn't go on: %w (%v)", lost, err) //nolint:errorlint // it is no matter what had interrupted it
		}
		return nil, err
	}
	return &paused{plan: w.plan, image: w.image, madeOf: w.madeOf, state: state, was: w.session.State()}, nil
}

// checkpointInto has a sandbox write all that it is, and go on. What it writes comes through a pipe, so that it has no descriptor of the file.
// Where it is interrupted, it writes no more.
func checkpointInto(ctx context.Context, control net.Conn, state *sealedFile, interrupt <-chan struct{}) error {
	const message = `{"method":"containerManager.Checkpoint","arg":{"metadata":{"compression":"none"},"app_mf_exclude_committed_zero_pages":true,"Resume":true}}`
	ours, theirs, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer ours.Close()
	growPipe(int(theirs.Fd()))
	// The sandbox gets as much time once more for its answer: it may learn late that nobody reads what it writes.
	deadline := time.Now().Add(pauseTimeout)
	if err := errors.Join(control.SetDeadline(deadline.Add(pauseTimeout)), ours.SetReadDeadline(deadline)); err != nil {
		theirs.Close()
		return err
	}
	defer context.AfterFunc(ctx, func() { control.Close(); ours.Close() })()
	err = sendWith(control, message, theirs)
	theirs.Close()
	if err != nil {
		return err
	}
	filled := fillUnless(state, ours, interrupt)
	ours.Close() // where the file has no room, the sandbox learns it by that
	said := awaitAnswer(control)
	if filled != nil && !errors.Is(said, errNoAnswer) {
		return filled
	}
	return errors.Join(said, filled)
}

// fillUnless fills the file with what comes. It fails with ErrWanted where it is interrupted before it returns, even if all is written by then: a session
// that is wanted goes on sooner in its sandbox.
func fillUnless(state *sealedFile, from *os.File, interrupt <-chan struct{}) error {
	filled := make(chan error)
	go func() { filled <- state.fill(from) }()
	var err error
	select {
	case err = <-filled:
	case <-interrupt:
		from.Close()
		err = <-filled // the file is the caller's again
	}
	select {
	case <-interrupt:
		return sandbox.ErrWanted
	default:
		return err
	}
}

// resumeOrRetry resumes, again and again where it is not the file's fault: the state is as it was until a sandbox goes on with it.
func (p *Sandboxes) resumeOrRetry(ctx context.Context, from *paused, task session.Task) (*instance, error) {
	for wait := time.Second; ; wait *= 2 {
		w, err := p.resume(ctx, from, task)
		if err == nil || ctx.Err() != nil || errors.Is(err, errSpoilt) || errors.Is(err, errOtherFiles) || wait > maxResumeWait {
			return w, err
		}
		p.config.Log.Warn("a paused session could not go on, trying again", "again_in", wait, "error", err)
		if !sleep(ctx, wait) {
			return nil, err
		}
	}
}

// resume starts a sandbox that goes on where the paused one was.
func (p *Sandboxes) resume(ctx context.Context, from *paused, task session.Task) (_ *instance, err error) {
	r := &resumed{image: from.image, madeOf: from.madeOf}
	if r.memory, err = memoryFile("paused sandbox"); err != nil {
		return nil, err
	}
	defer r.memory.Close()
	if err := from.state.copyTo(r.memory); err != nil {
		return nil, err
	}
	if _, err := r.memory.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("rewind: %w", err)
	}
	// The sandbox gets a descriptor by which it could write. What it can't do is take more of this process's memory.
	if _, err := unix.FcntlInt(r.memory.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return nil, fmt.Errorf("seal what a sandbox goes on from: %w", err)
	}
	freeing, stop := context.WithCancel(ctx)
	freed := make(chan error, 1)
	go func() { freed <- r.free(freeing) }()
	w, err := p.startAs(ctx, time.Now(), from.plan.resuming(task.Program.Limits), startMode{resumes: r, control: true})
	stop()
	if err = errors.Join(err, <-freed); err == nil {
		err = w.goOnAs(ctx, from.was, p.config.StartTimeout)
	}
	if err != nil && w != nil {
		w.close()
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// resuming is the plan of a container in which a program of these limits goes on. It has to hold from the start all that the program may hold; a new one is given more only before its
// code runs.
func (p plan) resuming(limits job.Limits) plan {
	if of, has := boundsOf(limits), boundsOf(p.limits); of.memory > has.memory || of.pids > has.pids {
		p.limits, p.reusable = limits, false
	}
	return p
}

// goOnAs makes the sandbox that of the session before, with which its agent goes on.
func (w *instance) goOnAs(ctx context.Context, before session.State, timeout time.Duration) error {
	if err := w.session.GoOn(ctx, before, timeout); err != nil {
		return err
	}
	if w.cgroup == nil {
		return nil
	}
	if err := w.session.BoundAgain(); err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	return nil
}

// resumed is the state that one sandbox goes on from, in the worker's memory.
type resumed struct {
	image  image
	madeOf string
	memory *os.File
}

// take is the file, as the sandbox gets it: where that has read, free sees.
func (r *resumed) take() ([]*os.File, error) {
	fd, err := unix.FcntlInt(r.memory.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("share a paused sandbox: %w", err)
	}
	return []*os.File{os.NewFile(uintptr(fd), "paused sandbox")}, nil //nolint:gosec // a descriptor
}

// free frees the memory that the sandbox has read: else a session would be there twice for as long as it takes.
func (r *resumed) free(ctx context.Context) error {
	const page = 4096
	done := int64(0)
	for sleep(ctx, freeInterval) {
		at, err := r.memory.Seek(0, io.SeekCurrent)
		if err != nil {
			return fmt.Errorf("see how far a paused sandbox is read: %w", err)
		}
		if at = at / page * page; at <= done {
			continue
		}
		if err := unix.Fallocate(int(r.memory.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, done, at-done); err != nil {
			return fmt.Errorf("free what is read of a paused sandbox: %w", err)
		}
		done = at
	}
	return nil
}

// tryPause pauses the session, which may take so many bytes, and tells it so. Where it can't be done the session goes on.
func (p *Sandboxes) tryPause(ctx context.Context, w *instance, turns sandbox.Turns, most int64, interrupt <-chan struct{}) *paused {
	listener, _ := turns.(sandbox.Pauses)
	began := time.Now()
	state, err := p.pause(ctx, w, most, interrupt)
	if err != nil {
		if listener != nil {
			listener.Stayed(err)
		}
		return nil
	}
	w.close()
	if listener != nil {
		listener.Paused(state.state.bytes, time.Since(began))
	}
	return state
}

// awaitTurn waits for a paused session's next turn, and starts the sandbox that goes on with it. Without another turn there is no
// sandbox.
func (p *Sandboxes) awaitTurn(ctx context.Context, task session.Task, from *paused) (*instance, *sandbox.Turn, error) {
	defer from.state.close()
	turns := task.Program.Turns
	t, ok, err := turns.Next(ctx)
	for ; err == nil && ok && t.Fork; t, ok, err = turns.Next(ctx) {
		forkPaused(p.config.PauseDir, turns, from)
	}
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("wait for a turn: %w", err)
	case !ok:
		return nil, nil, nil
	}
	began := time.Now()
	resuming, stop := context.WithTimeout(ctx, resumeTimeout)
	defer stop()
	w, err := p.resumeOrRetry(resuming, from, task)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, nil, fmt.Errorf("resume session: %w", context.Cause(ctx))
	case err != nil:
		return nil, nil, fmt.Errorf("%w: %w", sandbox.ErrStateLost, err)
	}
	if listener, ok := turns.(sandbox.Pauses); ok {
		listener.Resumed(time.Since(began))
	}
	return w, &t, nil
}
