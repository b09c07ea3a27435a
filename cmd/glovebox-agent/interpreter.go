package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// interpreter is a process of a session that executes code, turn by turn. It gets each piece on its control socket, a line
// with a token before it and a NUL behind it, and answers with a NUL, the token, a space, an exit code in decimal digits and a NUL. Before that it
// says what the code shows: a NUL, the token, a space, a JSON object and a NUL each; or that it masks interrupts ([maskWord]). What it says
// there is the program's word, as what it prints: code of the session can find the token and say it, too. That ends the turn
// early, and no other: each has a token of its own.
type interpreter struct {
	pid     int
	pipes   pipes
	control *os.File
	ear     *ear
	answers *bufio.Reader // of ear
	main    chan mainExit
	failure *execFailure
	// generation is its number in its context, and mark the cgroup by which its processes are known; "": all that have none.
	generation int
	mark       string
	// extraMemory is what it may hold beside limits.memory_mb, bytes: what it held when it became the session's.
	extraMemory int64
	// anew says that it is to draw its random numbers anew before it executes anything more.
	anew bool
	// told is closed when nothing is told or heard any more in its last turn.
	told chan struct{}
	// masked says that it masks interrupts, and signal what interrupts it.
	masked atomic.Bool
	signal atomic.Int32
}

// launch starts an interpreter. Its CPU time is that of all its turns, so only the agent's own watch bounds it.
func (c *contexts) launch(command []string, dir, mark string) (*interpreter, error) {
	ours, theirs, err := newControl()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	i := newInterpreter(ours)
	i.mark = mark
	limits := c.start.Limits
	limits.CPUMS = unboundedCPUMS
	r := run{
		argv: command, env: c.start.Env, limits: limits, control: theirs, limitControl: true, stderr: &output{}, mergeStderr: c.start.MergeStderr,
		dir: dir, mark: mark,
	}
	if i.pipes, err = r.openPipes(); err != nil {
		return nil, err
	}
	defer i.pipes.closeJobSide()
	err = c.reaper.start(i.main, func() (pid int, err error) {
		i.pid, i.failure, err = r.start(c.group, i.pipes)
		return i.pid, err
	})
	if err == nil && i.pid == 0 { // refused before there was a process
		i.main <- mainExit{}
	}
	return i, err
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

func newInterpreter(control *os.File) *interpreter {
	told := make(chan struct{})
	close(told)
	hears := &ear{control: control}
	i := &interpreter{control: control, ear: hears, answers: bufio.NewReader(hears), main: make(chan mainExit, 1), told: told}
	i.signal.Store(int32(syscall.SIGINT))
	return i
}

// preparedInterpreter is the process that was prepared and has become the session's. Its memory is kept by nobody else from here on: nothing waits
// for the end of a session.
func preparedInterpreter(p *process, start agentwire.Start) *interpreter {
	i := newInterpreter(p.sessionControl)
	i.pid, i.pipes, i.extraMemory, i.generation = p.pid, p.pipes, p.preloadAllowance(start), anyGeneration
	if p.holder != nil {
		p.holder.kill()
	}
	return i
}

// unboundedCPUMS is what one process of a session may use in all its turns.
const unboundedCPUMS = 7 * 24 * 3600 * 1000

// telling is a turn's code that an interpreter was given, as far as its socket holds it.
type telling struct {
	token string
	rest  []byte
	err   error
}

// tell gives the interpreter a turn's code. What its socket holds is there before it goes on, so that it has not to wait for it.
func (i *interpreter) tell(code []byte) telling {
	_ = i.control.SetDeadline(time.Time{})
	t := telling{token: rand.Text()}
	if i.anew {
		t.token, i.anew = "anew-"+t.token, false
	}
	text := slices.Concat([]byte(t.token+"\n"), code, []byte{0})
	n, err := writeNow(i.control, text)
	t.rest, t.err = text[n:], err
	return t
}

// hear tells what is left of the code, and returns what the answer comes from, closed without one if the
// interpreter has no control socket any more. What it shows before is shown's.
func (i *interpreter) hear(t telling, shown *shown) <-chan int {
	answer := make(chan int, 1)
	over := make(chan struct{})
	i.told = over
	go func() {
		defer close(over)
		defer close(answer)
		if t.err != nil {
			return
		}
		if len(t.rest) > 0 { // the interpreter may be gone after its answer
			if _, err := i.control.Write(t.rest); err != nil {
				return
			}
		}
		if exitCode, err := i.readAnswer(t.token, shown); err == nil {
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

// An interpreter that an interrupt would end for a while, or that would miss it, says maskWord, and unmaskWord when it can be interrupted again: behind a
// space, by the signal of that number in the place of SIGINT. What it has said last holds for the next turn, too. Before its first turn it has no token,
// and says firstMask.
const (
	maskWord   = "mask"
	unmaskWord = "unmask"
	firstMask  = " " + maskWord
)

// lastSignal is SIGRTMAX.
const lastSignal = 64

// noteMask notes what a word says about interrupts, and reports whether it is about them.
func (i *interpreter) noteMask(said string) bool {
	word, number, isNumbered := strings.Cut(said, " ")
	switch {
	case said == maskWord:
		i.masked.Store(true)
	case word == unmaskWord:
		signal := int(syscall.SIGINT)
		if isNumbered {
			var err error
			if signal, err = strconv.Atoi(number); err != nil || signal < 1 || signal > lastSignal {
				return false
			}
		}
		i.signal.Store(int32(signal)) //nolint:gosec // it is a signal's number
		i.masked.Store(false)
	default:
		return false
	}
	return true
}

// readAnswer returns the exit code that comes with the token. What comes with it before is shown, unless it is about interrupts, and whatever else is
// said is dropped.
func (i *interpreter) readAnswer(token string, shown *shown) (int, error) {
	for {
		word, err := i.nextWord(token + " ")
		if err != nil {
			return 0, err
		}
		if string(word) == firstMask {
			i.masked.Store(true)
			continue
		}
		said, ours := bytes.CutPrefix(word, []byte(token+" "))
		if !ours {
			continue
		}
		if code, err := strconv.ParseUint(string(said), 10, 8); err == nil {
			return int(code), nil
		}
		if i.noteMask(string(said)) {
			continue
		}
		if err := shown.add(said); err != nil {
			return 0, err
		}
	}
}

// nextWord returns what comes up to a NUL, and nothing of what doesn't begin so. Of a word that is longer than any that is shown, the end is left out.
func (i *interpreter) nextWord(begin string) (word []byte, err error) {
	for {
		piece, err := i.answers.ReadSlice(0)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		ended := err == nil
		if ended {
			piece = piece[:len(piece)-1]
		}
		if len(word) > 0 || strings.HasPrefix(string(piece[:min(len(piece), len(begin))]), begin) || string(piece) == firstMask {
			word = append(word, piece[:min(len(piece), maxWord-len(word))]...)
		}
		if ended {
			return word, nil
		}
	}
}

// dead reports whether the interpreter has ended, also where nobody has waited for it yet.
func (i *interpreter) dead() bool {
	if len(i.main) > 0 {
		return true
	}
	state, _, err := readStat(fmt.Sprintf("/proc/%d/stat", i.pid))
	return gone(err) || err == nil && (state == 'Z' || state == 'X')
}

// resume lets everything that stopAll has stopped go on.
func resume() { _ = syscall.Kill(-1, syscall.SIGCONT) }

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
	pipes   []*os.File
	streams [2]*output
	pumps   sync.WaitGroup
	errs    chan error
}

// pump begins to send what the session prints: whoever of it does, it belongs to the turn.
func (c *contexts) pump(stdout, stderr *output, stop chan<- agentwire.Cause) *turnOutput {
	t := &turnOutput{streams: [2]*output{stdout, stderr}, errs: make(chan error, 4*len(c.all))}
	exceeded := sync.OnceFunc(func() { stop <- agentwire.Output })
	for _, i := range c.all {
		for n, f := range []*os.File{i.pipes.stdout, i.pipes.stderr} {
			if f == nil {
				continue
			}
			if err := f.SetReadDeadline(time.Time{}); err != nil {
				t.errs <- err
			}
			t.pipes = append(t.pipes, f)
			t.pumps.Go(func() {
				if err := t.streams[n].pump(f, exceeded); err != nil {
					t.errs <- err
				}
			})
		}
	}
	return t
}

// end sends what is left in the pipes, now that nothing runs that could write to them, and why the turn's interpreter could not be started, if so. It says of
// which stream there was too much.
func (t *turnOutput) end(failure *execFailure) (truncated [2]bool, err error) {
	for _, f := range t.pipes {
		err = errors.Join(err, noWriters(f))
	}
	if err == nil {
		t.pumps.Wait()
	}
	if failure != nil && err == nil {
		err = t.streams[1].add([]byte(failure.message + "\n"))
	}
	select {
	case pumpErr := <-t.errs:
		err = errors.Join(err, pumpErr)
	default:
	}
	return [2]bool{t.streams[0].truncated, t.streams[1].truncated}, err
}
