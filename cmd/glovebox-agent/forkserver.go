package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// forksVariable tells a process that it is to make the processes of tests, and the number of its control socket;
// forkWordsVariable, which of its runtime's words the program has in it. runtimes/README.md says what it has to do then.
const (
	forksVariable     = "GLOVEBOX_FORKS"
	forkWordsVariable = "GLOVEBOX_FORK_WORDS"
)

const (
	// forkServerTimeout is how long a fork server may take until it can fork.
	forkServerTimeout = 20 * time.Second
	// forkTimeout is how long it may take to make a process that is a test's.
	forkTimeout = 10 * time.Second
	// maxForkArguments bounds a test's arguments, bytes: what is longer is for execve to judge.
	maxForkArguments = 64 << 10
	// maxForkMessage bounds what it is told of a test, and what it answers.
	maxForkMessage = 4096
)

// forkServer is the program's command, started once, before the program was there: an interpreter that makes the
// process of each test by a fork, which goes on as if it had been started for that. Its code is the image's, not a job's.
// Beside its ids, which it may change, it has a program's rights: the filter, the limits, and
// the programs' cgroup, which its children inherit.
//
// Four messages cross its control socket. It says "ready"; for each test it is told ids and limits, with the three
// standard streams and a file of its arguments, if any; the child says "started" and its number when it is the test's, and closes the socket before it
// comes to the program; and the server says "ended", the child's wait status and its peak of memory, KiB.
type forkServer struct {
	process

	control *os.File
	// allowed is what its memory, which its children share, may be beside theirs, bytes.
	allowed int64
	// said gets its messages, and is closed behind the last.
	said chan string
	// gone is closed when no process is left.
	gone chan struct{}
	// failure is why a test's process was not seen to end.
	failure error
}

// startForkServer starts the command so. It fails if the command can't make processes: each test then starts it.
func startForkServer(start agentwire.Start, shared *group) (*forkServer, error) {
	ours, theirs, err := newMessageSocket()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	f := &forkServer{control: os.NewFile(uintptr(ours), "control"), said: make(chan string, 1), gone: make(chan struct{})}
	env := extended(start.Env, map[string]string{forksVariable: fmt.Sprint(controlFD), forkWordsVariable: strings.Join(start.Forks.Words, " ")})
	limits := start.Limits
	limits.CPUMS, limits.Processes = unboundedCPUMS, math.MaxInt32 // each child's own
	r := run{
		name: testsGroup, shared: shared, argv: start.Command, env: env, limits: limits, control: theirs, limitControl: true,
		noIPC: true, noInternet: start.NoInternet, forks: true, mergeStderr: start.MergeStderr, stderr: &output{},
	}
	begun, failure, err := r.startProcess()
	if err != nil {
		return nil, err
	}
	theirs.Close() // now, so that its end is seen
	f.process = begun
	go f.listen()
	go f.reapOrphans()
	if failure != nil {
		err = errors.New(failure.message)
	} else if err = f.expect("ready", forkServerTimeout); err == nil {
		err = wipeAs(0, scratch...) // what it has made is its own, so no test's wipe could remove it
	}
	if err == nil {
		f.allowed, err = f.group.memory()
	}
	if err != nil {
		f.discard()
		return nil, err
	}
	f.allowed = min(f.allowed, start.Forks.MemoryMB<<20)
	return f, nil
}

// forTest returns the server for a test's run; nil where there is none any more.
func (f *forkServer) forTest() *forkServer {
	if f == nil {
		return nil
	}
	select {
	case <-f.gone:
		return nil
	default:
		return f
	}
}

// listen passes on what the server and its children say.
func (f *forkServer) listen() {
	defer close(f.said)
	b := make([]byte, maxForkMessage)
	for {
		n, err := unix.Read(int(f.control.Fd()), b)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || n == 0:
			return
		default:
			f.said <- string(b[:n])
		}
	}
}

// expect waits for a message that is the word.
func (f *forkServer) expect(word string, patience time.Duration) error {
	said, err := f.hear(patience)
	if err == nil && said != word {
		err = fmt.Errorf("it said %q", agentwire.Printable(said, 200))
	}
	return err
}

func (f *forkServer) hear(patience time.Duration) (string, error) {
	overdue := time.NewTimer(patience)
	defer overdue.Stop()
	select {
	case said, ok := <-f.said:
		if !ok {
			return "", errors.New("it has ended")
		}
		return said, nil
	case <-overdue.C:
		return "", fmt.Errorf("it said nothing in %v", patience)
	}
}

// fork has the server make the process of a test, and returns its number. If it fails, no code of the job was run.
func (f *forkServer) fork(r *run, p pipes) (pid int, err error) {
	limits := map[string]uint64{}
	for _, l := range limitsOf(r.limits) {
		limits[l.name] = l.value.Max
	}
	message := fmt.Appendf(nil, "%d %d %d", r.testID, limits["CPU"], limits["NPROC"])
	rights := []int{int(p.stdin.Fd()), int(p.jobOut.Fd()), int(p.jobErr.Fd())}
	args, err := sealArguments(r.args)
	if err != nil {
		return 0, err
	}
	if args != nil {
		defer args.Close()
		rights = append(rights, int(args.Fd()))
	}
	if err := unix.Sendmsg(int(f.control.Fd()), message, unix.UnixRights(rights...), nil, unix.MSG_NOSIGNAL); err != nil {
		return 0, fmt.Errorf("tell it of a test: %w", err)
	}
	said, err := f.hear(forkTimeout)
	if err != nil {
		return 0, err
	}
	number, ok := strings.CutPrefix(said, "started ")
	if pid, err = strconv.Atoi(number); !ok || err != nil || pid <= 1 {
		return 0, fmt.Errorf("it said %q", agentwire.Printable(said, 200))
	}
	return pid, nil
}

// sealArguments puts a test's arguments into a file, so that they are in no memory but its own process's. nil: there are none.
func sealArguments(args []string) (*os.File, error) {
	if len(args) == 0 {
		return nil, nil
	}
	text := strings.Join(args, "\x00")
	if strings.Count(text, "\x00") != len(args)-1 || len(text) > maxForkArguments {
		return nil, errors.New("execve would refuse its arguments")
	}
	var file stdin
	if err := file.write([]byte(text)); err != nil {
		return nil, err
	}
	return file.seal()
}

// awaitEnd sends the exit of a test's main process when that comes, and what it has used when no process of the test's user is left.
func (f *forkServer) awaitEnd(user uintptr, main chan<- mainExit, used chan<- usage) {
	var end mainExit
	var kib int64
	said := <-f.said
	if _, err := fmt.Sscanf(said, "ended %d %d", &end.status, &kib); err != nil {
		f.failure = fmt.Errorf("the fork server said %q at a test's end", agentwire.Printable(said, 200))
		killAll()
	}
	end.used.maxRSS = kib << 10
	main <- end
	for {
		if err := signalUser(user, 0); errors.Is(err, syscall.ESRCH) {
			used <- end.used
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// reapOrphans waits for the processes that programs leave to PID 1, and for the server. It returns when no process is left.
func (f *forkServer) reapOrphans() {
	defer close(f.gone)
	for {
		if _, err := syscall.Wait4(-1, nil, unix.WALL, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			return // ECHILD
		}
	}
}

// discard ends the server, and all else. No code of the job runs.
func (f *forkServer) discard() {
	for gone := false; !gone; {
		killAll()
		select {
		case <-f.gone:
			gone = true
		case <-time.After(time.Millisecond): // it may have forked while the signal went round
		}
	}
	for range f.said { //nolint:revive // until it is closed: nobody has the other end any more
	}
	f.control.Close()
	f.pipes.closeOurSide()
}

// signalUser sends a signal to all processes of a user that has no others than a test's: ESRCH says that there is none, not even one
// that has ended and was not waited for.
func signalUser(user uintptr, signal syscall.Signal) error {
	return asUser(user, func() error { return syscall.Kill(-1, signal) })
}
