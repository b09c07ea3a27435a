package main

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// interpreter is a session's process that executes code, turn by turn. It gets each piece on its control socket, a line
// with a token before it and a NUL behind it, and answers with a NUL, the token, a space, an exit code in decimal digits and a NUL. What it says
// there is the program's word, as what it prints: code of the session can find the token and say it, too. That ends the turn
// early, and no other: each has a token of its own.
type interpreter struct {
	pid     int
	group   group
	pipes   pipes
	control *os.File
	answers *bufio.Reader // of control
	main    chan mainExit
	used    chan usage
	failure *execFailure
	// extraMemory is what it may hold beside limits.memory_mb, bytes: what it held when it became the session's.
	extraMemory int64
	// cpu is what the session had used when its last turn ended, or when it got this interpreter. stirred says that it ran after that, and stirredFor what it used.
	cpu        time.Duration
	stirred    bool
	stirredFor time.Duration
	// told is closed when nothing is told or heard any more in this turn.
	told chan struct{}
}

// maxAnswer is more than a token and an exit code have.
const maxAnswer = 64

// startInterpreter starts it. Its CPU time is that of all its turns, so only the agent's own watch bounds it.
func startInterpreter(start agentwire.Start, g group) (*interpreter, error) {
	ours, theirs, err := newControl()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	i := newInterpreter(g, ours)
	limits := start.Limits
	limits.CPUMS = unboundedCPUMS
	r := run{argv: start.Command, env: start.Env, limits: limits, control: theirs, limitControl: true, stderr: &output{}, mergeStderr: start.MergeStderr}
	if i.pipes, err = r.openPipes(); err != nil {
		return nil, err
	}
	i.pid, i.failure, err = r.start(g, i.pipes)
	i.pipes.closeJobSide()
	if err != nil {
		return nil, err
	}
	if i.pid == 0 { // refused before there was a process
		i.main <- mainExit{}
	}
	if i.cpu, err = g.cpu(); err != nil {
		return nil, err
	}
	go reap(i.pid, nil, i.main, i.used)
	return i, nil
}

// newControl makes an interpreter's control socket.
func newControl() (ours, theirs *os.File, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make control socket: %w", err)
	}
	if err := unix.SetNonblock(ends[0], true); err != nil { // so that it can be closed while it is read
		return nil, nil, fmt.Errorf("set up control socket: %w", err)
	}
	return os.NewFile(uintptr(ends[0]), "control"), os.NewFile(uintptr(ends[1]), "control"), nil
}

func newInterpreter(g group, control *os.File) *interpreter {
	return &interpreter{group: g, control: control, answers: bufio.NewReaderSize(control, maxAnswer), main: make(chan mainExit, 1), used: make(chan usage, 1)}
}

// preparedInterpreter is the process that was prepared and has become the session's. Its memory is kept by nobody else from here on: nothing waits
// for the end of a session.
func preparedInterpreter(p *process, start agentwire.Start) (_ *interpreter, err error) {
	i := newInterpreter(p.group, p.sessionControl)
	i.pid, i.pipes, i.extraMemory = p.pid, p.pipes, p.preloadAllowance(start)
	i.cpu, err = i.group.cpu()
	go reap(i.pid, nil, i.main, i.used)
	if p.holder != nil {
		p.holder.kill()
	}
	return i, err
}

// unboundedCPUMS is what one process of a session may use in all its turns.
const unboundedCPUMS = 7 * 24 * 3600 * 1000

// tell gives the interpreter a turn's code, and returns what its answer comes from, closed without one if the
// interpreter has no control socket any more. What its socket holds is there when it returns, so that an interpreter that goes on then has not to wait for it.
func (i *interpreter) tell(code []byte) <-chan int {
	answer := make(chan int, 1)
	_ = i.control.SetDeadline(time.Time{})
	token := rand.Text()
	told := make(chan struct{})
	i.told = told
	text := slices.Concat([]byte(token+"\n"), code, []byte{0})
	n, failed := writeNow(i.control, text)
	go func() {
		defer close(told)
		defer close(answer)
		if failed != nil {
			return
		}
		if n < len(text) { // the interpreter may be gone after its answer
			if _, err := i.control.Write(text[n:]); err != nil {
				return
			}
		}
		if exitCode, err := i.readAnswer(token); err == nil {
			answer <- exitCode
		}
	}()
	return answer
}

// writeNow writes what can be written without waiting.
func writeNow(f *os.File, p []byte) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlErr := raw.Control(func(fd uintptr) { n, err = syscall.Write(int(fd), p) })
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		err = nil
	}
	return max(n, 0), errors.Join(controlErr, err)
}

// readAnswer returns the exit code that comes with the token, and drops whatever else is said.
func (i *interpreter) readAnswer(token string) (int, error) {
	for whole := true; ; {
		word, err := i.answers.ReadSlice(0)
		if errors.Is(err, bufio.ErrBufferFull) {
			whole = false
			continue
		}
		if err != nil {
			return 0, err
		}
		if digits, ok := strings.CutPrefix(string(word[:len(word)-1]), token+" "); ok && whole {
			if code, err := strconv.ParseUint(digits, 10, 8); err == nil {
				return int(code), nil
			}
		}
		whole = true
	}
}

// interrupt sends SIGINT to the interpreter and to what it has started in its process group.
func (i *interpreter) interrupt() { _ = syscall.Kill(-i.pid, syscall.SIGINT) }

// resume lets everything that stopAll has stopped go on.
func (i *interpreter) resume() { _ = syscall.Kill(-1, syscall.SIGCONT) }

// kill ends everything of the session, and waits until the kernel has its memory back, which takes a moment. What
// files hold stays.
func (i *interpreter) kill(memoryLimit int64) {
	killUntilGone(i.used, usage{}, nil)
	for range 100 {
		if held, err := i.group.memory(); err != nil || held <= memoryLimit/2 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// finish ends what waits for the interpreter's answer. If the interpreter is gone, nothing is left of it.
func (i *interpreter) finish(gone bool) {
	_ = i.control.SetDeadline(time.Now())
	<-i.told
	if gone {
		i.control.Close()
		i.pipes.closeOurSide()
	}
}

// turnOutput sends what a turn prints.
type turnOutput struct {
	i       *interpreter
	streams [2]*output
	pumps   sync.WaitGroup
	errs    chan error
}

// pump begins to send what the session prints.
func (i *interpreter) pump(stdout, stderr *output, stop chan<- agentwire.Cause) *turnOutput {
	t := &turnOutput{i: i, streams: [2]*output{stdout, stderr}, errs: make(chan error, 4)}
	exceeded := sync.OnceFunc(func() { stop <- agentwire.Output })
	for n, f := range []*os.File{i.pipes.stdout, i.pipes.stderr} {
		if f == nil {
			continue
		}
		if err := f.SetReadDeadline(time.Time{}); err != nil {
			t.errs <- err
		}
		t.pumps.Go(func() {
			if err := t.streams[n].pump(f, exceeded); err != nil {
				t.errs <- err
			}
		})
	}
	return t
}

// end sends what is left in the pipes, now that nothing runs that could write to them, and says of which stream there
// was too much.
func (t *turnOutput) end() (truncated [2]bool, err error) {
	err = errors.Join(noWriters(t.i.pipes.stdout), noWriters(t.i.pipes.stderr))
	if err == nil {
		t.pumps.Wait()
	}
	if f := t.i.failure; f != nil && err == nil {
		err = t.streams[1].add([]byte(f.message + "\n"))
	}
	select {
	case pumpErr := <-t.errs:
		err = errors.Join(err, pumpErr)
	default:
	}
	return [2]bool{t.streams[0].truncated, t.streams[1].truncated}, err
}
