package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// preloadVariable tells the process that it is started before its program is known, and
// the number of its control socket. runtimes/README.md says what it has to do then.
const preloadVariable = "GLOVEBOX_PRELOAD"

const (
	// maxHandover bounds what a process says, and what it is told of its program. For longer
	// commands there are limits that only execve knows.
	maxHandover = 64 << 10
	// handoverTimeout is how long the process may take to answer.
	handoverTimeout = 5 * time.Second
)

// prepared is a process that is started before its program is known, and becomes that or its compile step. It is started as programs
// are, with a program's rights and in a group of its own, but without a program's limits: it
// sets those itself before it becomes the program. Its code is the image's, not a job's. Three
// messages cross its control socket: "prepared" with the files that it has mapped, the program
// (handover), and "yes" or why not.
type prepared struct {
	process

	command []string
	compile bool          // it becomes a compile step
	control int           // our end
	started chan struct{} // closed once the process was started, or could not be
	send    func(agentwire.Prepared) error

	mu      sync.Mutex
	ready   bool // it has said that it is prepared
	settled bool // it is the program's, or given up: nothing more is reported of it
}

// handover is what the process is told of its program.
type handover struct {
	Args []string `json:"args"`
	// Env is the program's whole environment.
	Env map[string]string `json:"env"`
	// Limits are by the names that getrlimit has for them, without RLIMIT_.
	Limits map[string]uint64 `json:"limits"`
}

// prepare starts the process, in the background, and sends what becomes of it.
func prepare(request agentwire.Prepare, send func(agentwire.Prepared) error) *prepared {
	p := &prepared{command: request.Command, compile: request.Compile, control: -1, started: make(chan struct{}), send: send}
	go func() {
		err := p.start(request)
		close(p.started)
		if err == nil {
			err = p.awaitReady()
		}
		p.report(err)
	}()
	return p
}

func (p *prepared) start(request agentwire.Prepare) error {
	ours, theirs, err := newMessageSocket()
	if err != nil {
		return err
	}
	p.control = ours
	defer theirs.Close()
	env := extended(request.Env, map[string]string{preloadVariable: fmt.Sprint(controlFD)})
	r := run{name: "prepared", argv: request.Command, env: env, control: theirs, noIPC: p.compile}
	if !p.compile { // a compile step has one stream
		r.stderr = &output{}
	}
	begun, failure, err := r.startProcess()
	if err != nil {
		return err
	}
	p.process = begun
	if failure != nil {
		return errors.New(failure.message)
	}
	return nil
}

// newMessageSocket makes a control socket that keeps messages apart.
func newMessageSocket() (ours int, theirs *os.File, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, fmt.Errorf("make control socket: %w", err)
	}
	return ends[0], os.NewFile(uintptr(ends[1]), "control"), nil
}

// extended returns env with more variables, which replace its own.
func extended(env, more map[string]string) map[string]string {
	all := make(map[string]string, len(env)+len(more))
	maps.Copy(all, env)
	maps.Copy(all, more)
	return all
}

// awaitReady waits for the process's first message.
func (p *prepared) awaitReady() error {
	said, err := p.receive()
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(said, "\n"), "\n")
	if lines[0] != "prepared" {
		return fmt.Errorf("it said %q", agentwire.Printable(said, 100))
	}
	lines = lines[1:]
	if len(lines) > 0 {
		if pid, ok := strings.CutPrefix(lines[0], "keeper "); ok {
			if p.holder, err = newMemoryHolder(pid, p.group); err != nil {
				return err
			}
			lines = lines[1:]
		}
	}
	_ = pinMappings(lines) // a file that can't be mapped only makes the program's end take longer
	return nil
}

// errHungUp is why no more messages come.
var errHungUp = errors.New("it has ended")

// receive waits for a message of the process.
func (p *prepared) receive() (string, error) {
	b := make([]byte, maxHandover)
	for {
		n, err := unix.Read(p.control, b)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return "", fmt.Errorf("receive from it: %w", err)
		case n == 0:
			return "", errHungUp
		default:
			return string(b[:n]), nil
		}
	}
}

// report tells the worker what became of the process, unless that is settled.
func (p *prepared) report(failure error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settled {
		return
	}
	var now groupUsage
	if failure == nil {
		now.sample(p.group)
		failure = now.err
	}
	said := agentwire.Prepared{CPUMS: now.cpu.Milliseconds(), MemoryBytes: now.memory}
	if failure != nil {
		said = agentwire.Prepared{Failure: agentwire.Printable(failure.Error(), 1024)}
	}
	// If this can't be written, the next frame can't either.
	p.ready = p.send(said) == nil && failure == nil
}

// reportAgain tells a worker whose sandbox goes on from a snapshot what another was told.
func (p *prepared) reportAgain() {
	if p == nil {
		return
	}
	p.mu.Lock()
	ready := p.ready
	p.mu.Unlock()
	if ready {
		p.report(nil)
	}
}

// takeOver makes the process the program's if the two match, and else ends it. If it returns nil,
// the program is to be started as usual; why is for tests and debuggers.
func (p *prepared) takeOver(start agentwire.Start, in *inputs) (_ *process, why error) {
	if p == nil {
		return nil, errors.New("none was prepared")
	}
	p.mu.Lock()
	ready := p.ready
	p.settled = true
	p.mu.Unlock()
	why = p.mismatch(ready, start, in)
	if why == nil {
		why = p.handOver(start, in)
	}
	if why != nil {
		limits := start.Limits
		if len(start.Compile) > 0 {
			limits = limits.Compile()
		}
		p.discard(limits.MemoryMB << 20)
		return nil, why
	}
	_ = unix.Close(p.control) // the other end is closed already
	if in.stdin != nil && !p.compile {
		in.stdin.Close()
	}
	return &p.process, nil
}

// mismatch returns why the process can't be the program's, before it is asked.
func (p *prepared) mismatch(ready bool, start agentwire.Start, in *inputs) error {
	switch {
	case !ready:
		return errors.New("it is not ready")
	case start.PreparedMB == 0 || p.compile != (len(start.Compile) > 0) || in.problem != "":
		return errors.New("it is not for this program")
	}
	if command := becoming(start); len(command) < len(p.command) || !slices.Equal(command[:len(p.command)], p.command) {
		return errors.New("the program has another command")
	}
	for _, stream := range []*os.File{p.pipes.stdout, p.pipes.stderr} {
		if stream == nil {
			continue
		}
		if n, err := readNow(stream, make([]byte, 1)); n > 0 || err == nil {
			return errors.New("it has printed something")
		}
	}
	p.preloaded.sample(p.group)
	return p.preloaded.err
}

// becoming is the command of a prepared process that becomes the program, its compile step, or a session's interpreter.
func becoming(start agentwire.Start) []string {
	switch {
	case start.Session:
		return start.Become
	case len(start.Compile) > 0:
		return start.Compile
	}
	return start.Command
}

// handOver tells the process its program, and waits for its answer.
func (p *prepared) handOver(start agentwire.Start, in *inputs) error {
	told := handover{Args: becoming(start)[len(p.command):], Env: map[string]string{}, Limits: map[string]uint64{}}
	for _, pair := range environ(start.Env) { // what execve would let through
		name, value, _ := strings.Cut(pair, "=")
		told.Env[name] = value
	}
	for _, arg := range told.Args {
		if strings.Contains(arg, "\x00") {
			return errors.New("execve would refuse it")
		}
	}
	limits, stdin := start.Limits, in.stdin
	switch {
	case p.compile:
		limits, stdin = limits.Compile(), nil
	case start.Session: // its control socket is what it reads from
		limits.CPUMS = unboundedCPUMS
		var err error
		if p.sessionControl, stdin, err = newControl(); err != nil {
			return err
		}
		defer stdin.Close()
	}
	for _, l := range limitsOf(limits) {
		told.Limits[l.name] = l.value.Max
	}
	told.Limits["CPU"] += uint64(math.Ceil(p.preloaded.cpu.Seconds()))
	message, err := json.Marshal(told)
	if err != nil {
		return fmt.Errorf("encode program: %w", err)
	}
	if len(message) > maxHandover {
		return errors.New("the program's command is too long")
	}
	var rights []byte
	if stdin != nil {
		rights = unix.UnixRights(int(stdin.Fd()))
	}
	patience := unix.NsecToTimeval(handoverTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(p.control, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
		return fmt.Errorf("bound the wait for its answer: %w", err)
	}
	if err := unix.Sendmsg(p.control, message, rights, nil, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("tell it the program: %w", err)
	}
	answer, err := p.receive()
	switch {
	case err != nil:
		return err
	case answer != "yes":
		return fmt.Errorf("it refused: %s", agentwire.Printable(answer, 200))
	case p.compile: // sockets are counted while it runs, for tests that may leave none
		if more, err := p.receive(); !errors.Is(err, errHungUp) {
			return fmt.Errorf("its socket is still open: %s, %w", agentwire.Printable(more, 200), cmp.Or(err, errors.New("it said more")))
		}
	}
	return nil
}

// discard ends the process and all that it started, in the place of which a program starts that may hold so
// many bytes.
func (p *prepared) discard(limit int64) {
	<-p.started
	killAll()
	used := make(chan usage, 1)
	go reap(0, nil, nil, used)
	killUntilGone(func(syscall.Signal) { killAll() }, used, usage{}, nil)
	if p.sessionControl != nil {
		p.sessionControl.Close()
	}
	if p.pipes.stdout != nil {
		p.pipes.closeOurSide()
		p.group.awaitBelow(limit / 4)
		p.group.close()
	}
}

// preloadAllowance is how much of what the process held when it became the program's is allowed
// beside the program's own memory.
func (p *process) preloadAllowance(start agentwire.Start) int64 {
	if p == nil {
		return 0
	}
	return min(p.preloaded.memory, start.PreparedMB<<20)
}
