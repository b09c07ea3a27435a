package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// test is one run of the program.
type test struct {
	args  []string
	stdin stdin
	// sealed is what it reads; nil: nothing.
	sealed *os.File
	// feed goes on behind that; nil: the program is not interactive.
	feed *feed
}

// firstTestID is uid and gid of the first run on a test; each run after it has the next. The one below it is the fork server's.
const firstTestID = 10_000

// scratch are the directories that a program can write to.
var scratch = []string{workDir, "/tmp", "/dev/shm"}

// queueTest hands over the test that has come. Nothing of a test is here while the one before is run,
// so the worker sends it when it has read of that one's end.
func (s *session) queueTest() error {
	var err error
	if s.coming.test.sealed, err = s.coming.test.stdin.seal(); err != nil {
		return err
	}
	if s.check.Start.Interactive {
		s.feed = newFeed()
		s.coming.test.feed = s.feed
	}
	select {
	case s.tests <- *s.coming.test:
		return nil
	default:
		return errors.New("a test came while another waits")
	}
}

// runTests runs the program on each test that comes. Between two of them there are no processes but
// this one and the fork server, if there is one, nothing is left in any directory that a program can write to, nor of what needs no name, and
// the next one has another uid. Objects for communication between processes, which would be left, are
// refused to all. A test is asked for when all of that is so; if it can't be made so, the session ends.
// sockets is how many there were before the compile step.
func (s *session) runTests(start agentwire.Start, counter *stocktaker, sockets int) error {
	program, err := keepProgram()
	if err == nil {
		err = counter.awaitSockets(sockets)
	}
	if unfit := unfitError(""); errors.As(err, &unfit) {
		return s.refuse("glovebox: " + err.Error())
	}
	if err != nil {
		return err
	}
	var all *group // of all runs, one after another
	if !hostKernel {
		g, err := newGroup(testsGroup)
		if err != nil {
			return err
		}
		defer g.close()
		all, counter.memory = &g, g.memory
	}
	var server *forkServer
	if start.Forks != nil && !hostKernel {
		server, _ = startForkServer(start, all) // it is best effort, as preloading is; ignore why it failed
	}
	clean, err := counter.take()
	if err != nil {
		return err
	}
	if server != nil {
		clean.memory += server.allowed / 4 // of what it shares with a child, the server writes to some, and keeps its copies
	}
	id := uintptr(firstTestID)
	if hostKernel { // there is one user
		id = jobID
	}
	if err := program.layOut(id); isFull(err) {
		return s.refuse("glovebox: the program's files do not fit twice into the job's directory (limits.disk_mb)")
	} else if err != nil {
		return err
	}
	for first := true; ; first = false {
		if err := s.out.Write(agentwire.TypeCleared, nil); err != nil {
			return err
		}
		// While the test is on its way.
		if !first {
			if err := program.layOut(id); err != nil {
				return err
			}
		}
		streams, err := newPipes(id, !start.MergeStderr)
		if err != nil {
			return err
		}
		t, ok := <-s.tests
		if !ok {
			break
		}
		if err := s.runTest(start, t, id, streams, all, server.forTest()); err != nil {
			return fmt.Errorf("run on a test: %w", err)
		}
		if err := clean.restore(id, counter); err != nil {
			// The sandbox is of no use any more; the tests that were run keep what they came to.
			fmt.Fprintln(os.Stderr, "glovebox-agent:", err)
			break
		}
		if !hostKernel {
			id++
		}
	}
	return s.out.WriteJSON(agentwire.TypeEnd, agentwire.End{})
}

func (s *session) runTest(start agentwire.Start, t test, id uintptr, streams pipes, all *group, server *forkServer) error {
	stderr := s.stream(agentwire.TypeStderr, start)
	stderr.most, stderr.truncate = agentwire.StderrOfTest(start.StderrKB), true
	stdin := t.sealed
	if t.feed != nil {
		var err error
		if stdin, err = t.feed.open(t.sealed, id); err != nil {
			return err
		}
		defer t.feed.close()
	}
	r := run{
		name: testsGroup, shared: all, streams: &streams, argv: slices.Concat(start.Command, t.args), env: start.Env, limits: start.Limits,
		stdin: stdin, killed: s.killed, signals: s.signals, testID: id, noIPC: true, noInternet: start.NoInternet, mergeStderr: start.MergeStderr,
		stdout: s.stream(agentwire.TypeStdout, start), stderr: stderr,
		started: func() error { return s.out.WriteJSON(agentwire.TypeStarted, agentwire.Started{}) },
	}
	if server != nil {
		r.server, r.args, r.extraMemory = server, t.args, server.allowed
	}
	return s.finish(r)
}
