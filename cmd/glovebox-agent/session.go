package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// session is the agent's life: one job.
type session struct {
	in     *agentwire.Reader
	out    *agentwire.Writer
	check  agentwire.FromHost
	credit *agentwire.Credit
	kernel string // its version
	inputs *inputs
	// killed is closed by a Kill frame.
	killed   chan struct{}
	prepared *prepared // nil: none was asked for
	listener listener
	// tests gets what the program is to be run on, and is closed behind the last.
	tests chan test
	// turns gets what a session is to execute, and is closed behind the last; interrupt, that the one under
	// way is to end.
	turns     chan turn
	interrupt chan struct{}
	// restart says that the interpreter that executes it is to be ended.
	restart chan struct{}
	clean   chan struct{} // closed when files of turns can be put where they are to be
	// takenUp are files that a prepared process removes as it becomes the session's interpreter.
	takenUp []string
	// pauses gets Pause and Resume between two turns.
	pauses chan agentwire.Type
	coming coming
	// feed is an interactive program's stdin, the test's that came last if it is run on tests, and nil of any other program; signals
	// gets what is to be sent to its processes.
	feed    *feed
	signals chan syscall.Signal
}

// coming is the test or the turn that is being received.
type coming struct {
	test *test
	turn *turn
}

func newSession(in io.Reader, out io.Writer) *session {
	return &session{
		in:     agentwire.FromHostReader(bufio.NewReader(in)),
		out:    agentwire.NewWriter(out),
		credit: agentwire.NewCredit(),
		killed: make(chan struct{}),
		tests:  make(chan test, 1),
		turns:  make(chan turn, 1), interrupt: make(chan struct{}, 1), restart: make(chan struct{}, 1), clean: make(chan struct{}),
		pauses: make(chan agentwire.Type, 1), signals: make(chan syscall.Signal, 64),
	}
}

// run takes the job from Ready to End. An error is the agent's own failure.
func (s *session) run() error {
	var err error
	if s.kernel, err = checkSandbox(); err != nil {
		return err
	}
	if err := s.sayReady(); err != nil {
		return err
	}
	if err := asJob(s.receive); err != nil {
		return err
	}
	start := s.check.Start
	if start.Interactive && !start.Tests { // each test has its own
		s.feed = newFeed()
		if s.inputs.stdin, err = s.feed.open(s.inputs.stdin, jobID); err != nil {
			return err
		}
		defer s.feed.close()
	}
	s.listen()

	if start.Tests { // what a prepared process has left
		if err := wipeAs(jobID, "/tmp", "/dev/shm"); err != nil {
			return err
		}
	}
	process, _ := s.prepared.takeOver(start, s.inputs) // preloading is best effort; ignore why it failed
	if s.prepared != nil && process == nil {
		// It may have been in the middle of something.
		if err := wipeAs(jobID, "/tmp", "/dev/shm"); err != nil {
			return err
		}
	}
	if s.inputs.problem != "" {
		return s.refuse(s.inputs.problem)
	}
	if start.Session {
		return s.runTurns(start, process)
	}
	var counter *stocktaker
	var sockets int
	if start.Tests {
		if counter, err = newStocktaker(); err != nil {
			return err
		}
		if sockets, err = counter.sockets(); err != nil {
			return err
		}
	}
	if len(start.Compile) > 0 {
		ok, err := s.compile(start, process)
		if err != nil {
			return err
		}
		if !ok {
			return s.out.WriteJSON(agentwire.TypeEnd, agentwire.End{})
		}
		process = nil
	}
	if start.Tests {
		return s.runTests(start, counter, sockets)
	}
	if err := s.program(start, process); err != nil {
		return err
	}
	s.stopListening()
	return asJob(func() error {
		c := collector{root: workDir, limits: start.Limits, inputs: s.inputs.sums, send: s}
		return c.run()
	})
}

func (s *session) sayReady() error {
	return s.out.WriteJSON(agentwire.TypeReady, agentwire.Ready{Protocol: agentwire.Version, Kernel: s.kernel})
}

// fault tells the worker that the agent, not the job, has failed. If even that can't be
// written, the missing End says it.
func (s *session) fault(err error) {
	f := agentwire.Fault{Message: agentwire.Printable(err.Error(), 1024)}
	if err := s.out.WriteJSON(agentwire.TypeFault, f); err != nil {
		fmt.Fprintln(os.Stderr, "glovebox-agent:", err)
	}
}

// refuse ends a job that asks for more than its own limits allow. The inputs that were written
// are no artifacts.
func (s *session) refuse(problem string) error {
	if err := s.out.WriteJSON(agentwire.TypeRefused, agentwire.Refused{Message: problem}); err != nil {
		return err
	}
	return s.out.WriteJSON(agentwire.TypeEnd, agentwire.End{})
}

// receive takes the start, the inputs and stdin, up to Go.
func (s *session) receive() error {
	s.inputs = newInputs(workDir)
	for {
		f, err := s.next()
		if err != nil {
			return err
		}
		switch f.Type {
		case agentwire.TypeCredit:
			err = s.credit.Grant(f.Credit())
		case agentwire.TypePrepare:
			s.prepared = prepare(s.check.Prepare, func(p agentwire.Prepared) error { return s.out.WriteJSON(agentwire.TypePrepared, p) })
		case agentwire.TypeResume:
			err = s.sayReady()
			s.prepared.reportAgain()
		case agentwire.TypeFileBegin:
			err = s.inputs.begin(s.check.File)
		case agentwire.TypeFileData:
			err = s.inputs.data(f.Payload)
		case agentwire.TypeStdinData:
			err = s.inputs.unsealed.write(f.Payload)
		case agentwire.TypeGo:
			s.inputs.stdin, err = s.inputs.unsealed.seal()
			return err
		}
		if err != nil {
			return err
		}
	}
}

func (s *session) next() (agentwire.Frame, error) {
	f, err := s.in.Next()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return f, errors.New("the worker has gone")
		}
		return f, err
	}
	return f, s.check.Accept(f)
}

// sendBulk sends p, as credit comes in.
func (s *session) sendBulk(t agentwire.Type, p []byte) error {
	for len(p) > 0 {
		n, err := s.credit.Take(min(len(p), agentwire.MaxPayload))
		if err != nil {
			return err
		}
		if err := s.out.Write(t, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// compile runs the compile step, in the prepared process if that is its own, and reports whether it succeeded. The files
// that it makes are the program's inputs: no artifacts, unless the program changes them.
func (s *session) compile(start agentwire.Start, process *process) (ok bool, err error) {
	const roomToSay = 256 // bytes, for why it ended, which is said behind what it printed
	out := &output{most: agentwire.MaxCompileOutput - roomToSay, truncate: true, send: func(p []byte) error {
		return s.sendBulk(agentwire.TypeCompileOutput, p)
	}}
	r := run{
		name: "compile", argv: start.Compile, env: start.Env, limits: start.Limits.Compile(),
		stdout: out, killed: s.killed, noIPC: start.Tests,
		process: process, extraMemory: process.preloadAllowance(start),
	}
	end, err := r.do()
	if err != nil {
		return false, fmt.Errorf("run compile step: %w", err)
	}
	// What a compiler was refused is nothing that the program was. What can't be removed is no file of the
	// job's, and not believed.
	_ = asJob(func() error { return os.Remove(outOfMemoryMark) })
	say := map[agentwire.Cause]string{
		agentwire.Wall: "Compilation timed out\n", agentwire.CPU: "Compilation timed out\n",
		agentwire.Memory: "Compilation ran out of memory\n", agentwire.Processes: "Compilation started too many processes\n",
	}[end.Cause]
	out.most = agentwire.MaxCompileOutput
	if err := out.add([]byte(end.message + say)); err != nil {
		return false, err
	}
	compiled := agentwire.Compiled{ExitCode: end.ExitCode, WallMS: end.Usage.WallMS, Preloaded: process != nil}
	if end.Cause != agentwire.Exited && compiled.ExitCode == 0 {
		compiled.ExitCode = 1
	}
	if err := s.out.WriteJSON(agentwire.TypeCompiled, compiled); err != nil {
		return false, err
	}
	if compiled.ExitCode != 0 {
		return false, nil
	}
	if err := awaitFreed(); err != nil {
		return false, err
	}
	if start.Tests { // there will be no artifacts
		return true, nil
	}
	return true, asJob(func() error { return s.inputs.snapshot(start.Limits.DiskMB << 20) })
}

// program runs the program, in the prepared process if that is its own.
func (s *session) program(start agentwire.Start, process *process) error {
	return s.finish(run{
		name: "program", argv: start.Command, env: start.Env, limits: start.Limits,
		stdin: s.inputs.stdin, killed: s.killed, mergeStderr: start.MergeStderr,
		stdout: s.stream(agentwire.TypeStdout, start), stderr: s.stream(agentwire.TypeStderr, start),
		started: func() error {
			return s.out.WriteJSON(agentwire.TypeStarted, agentwire.Started{Preloaded: process != nil})
		},
		process: process, extraMemory: process.preloadAllowance(start), signals: s.signals,
	})
}

// stream sends one of a program's streams.
func (s *session) stream(t agentwire.Type, start agentwire.Start) *output {
	return &output{
		most: start.Limits.OutputKB << 10, truncate: start.TruncateOutput,
		send: func(p []byte) error { return s.sendBulk(t, p) },
	}
}

// finish runs the program to its end, and says how it ended.
func (s *session) finish(r run) error {
	end, err := r.do()
	if err != nil {
		return fmt.Errorf("run program: %w", err)
	}
	if end.Cause == agentwire.Exited && (end.ExitCode != 0 || end.Signal != "") && markedOutOfMemory() {
		end.Cause = agentwire.Memory
		if r.limits.AddressSpaceMB > 0 {
			end.Cause = agentwire.AddressSpace
		}
	}
	end.StdoutTruncated, end.StderrTruncated = r.stdout.truncated, r.stderr.truncated
	if end.message != "" {
		if err := r.stderr.add([]byte(end.message)); err != nil {
			return err
		}
	}
	return s.out.WriteJSON(agentwire.TypeExit, end.Exit)
}

// outOfMemoryMark is the empty file by which a language's runtime says that a program was
// refused memory and gave up. A program that goes over memory_mb is killed; only a request that
// no machine could meet is refused, which a language turns into an exception. A job that makes
// the file itself gains nothing: it could as well use up its memory.
const outOfMemoryMark = "/tmp/.glovebox-out-of-memory"

func markedOutOfMemory() bool {
	info, err := os.Lstat(outOfMemoryMark)
	return err == nil && info.Mode().IsRegular()
}

// environ returns env as the kernel wants it.
func environ(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for k, v := range env {
		if k != "" && !strings.ContainsAny(k, "=\x00") && !strings.Contains(v, "\x00") {
			list = append(list, k+"="+v)
		}
	}
	return list
}

const (
	workDir      = "/work"
	jobID        = 1000 // uid and gid
	pollInterval = 20 * time.Millisecond
)
