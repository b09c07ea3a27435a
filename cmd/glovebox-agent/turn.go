package main

import (
	"errors"
	"fmt"
	"maps"
	"syscall"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
)

// turn is one execution of a session.
type turn struct {
	code  []byte // at most limits.source_kb
	files *inputs
	wall  time.Duration
}

// newTurn is one of whose files and code nothing has come.
func newTurn(wall time.Duration) *turn {
	files := newInputs(workDir)
	files.replace = true
	return &turn{wall: wall, files: files}
}

// beginFile begins a file of the turn that comes. Nothing of the session runs, and what a prepared process has left is gone.
func (s *session) beginFile(t *turn) error {
	<-s.clean
	return asJob(func() error { return t.files.begin(s.check.File) })
}

const (
	// interruptPatience is how long code may take to end that was interrupted, each time.
	interruptPatience = time.Second
	// maxInterrupts is how often it is, before its interpreter is killed: a signal can come while an interpreter
	// has no handler for it.
	maxInterrupts = 2
)

// queueTurn hands over the turn that has come.
func (s *session) queueTurn() error {
	select {
	case <-s.interrupt: // it was for a turn that had ended
	default:
	}
	select {
	case s.turns <- *s.coming.turn:
		return nil
	default:
		return errors.New("a turn came while another waits")
	}
}

// runTurns has code executed as it comes, by an interpreter that keeps its state. When it ends, the next turn gets a
// new one. Between two turns no process of the session runs, so no file changes while it is read, and all
// that is printed belongs to the turn that sends it. process, if there is one, was prepared and is the first interpreter already.
func (s *session) runTurns(start agentwire.Start, process *process) error {
	if err := wipeAs(jobID, "/tmp", "/dev/shm"); err != nil { // what a prepared process has left
		return err
	}
	g, err := newGroup("program")
	if err != nil {
		return err
	}
	defer g.close()
	files := s.inputs.sums
	var i *interpreter
	if process != nil {
		if i, err = preparedInterpreter(process, start); err != nil {
			return err
		}
	} else if len(start.Become) > 0 { // the code of a prepared one
		if err := wipeAs(jobID, workDir); err != nil {
			return err
		}
	}
	close(s.clean)
	for {
		t, ok, err := s.nextTurn(i, start)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		maps.Copy(files, t.files.sums)
		problem, refused := t.files.problem, agentwire.Exit{Cause: agentwire.Exited, ExitCode: 1}
		if i != nil && i.stirred {
			problem, refused.Lost, refused.Usage.CPUMS = stirred, true, i.stirredFor.Milliseconds()
			i = nil
		}
		if problem != "" {
			if err := s.refuseTurn(start, i, problem, refused); err != nil {
				return err
			}
			continue
		}
		if i == nil {
			if i, err = startInterpreter(start, g); err != nil {
				return fmt.Errorf("start interpreter: %w", err)
			}
		}
		exit, err := s.execute(i, start, t)
		if err != nil {
			return fmt.Errorf("execute code: %w", err)
		}
		if exit.Lost {
			i = nil
			if err := awaitFreed(); err != nil {
				return err
			}
		}
		s.out.Hold()
		if err := s.out.WriteJSON(agentwire.TypeExit, exit); err != nil {
			return err
		}
		c := collector{root: workDir, limits: start.Limits, inputs: files, send: s, sums: map[string]sum{}}
		if err := asJob(c.collect); err != nil {
			return err
		}
		files = c.sums
		if err := s.out.WriteJSON(agentwire.TypeTurned, agentwire.Turned{SkippedTotal: c.skipped}); err != nil {
			return err
		}
		if err := s.out.Release(); err != nil {
			return err
		}
	}
	killAll()
	return s.out.WriteJSON(agentwire.TypeEnd, agentwire.End{})
}

// refuseTurn is a turn whose code is not executed.
func (s *session) refuseTurn(start agentwire.Start, i *interpreter, problem string, exit agentwire.Exit) error {
	if err := s.started(i); err != nil {
		return err
	}
	if err := s.stream(agentwire.TypeStderr, start).add([]byte(problem + "\n")); err != nil {
		return err
	}
	if err := s.out.WriteJSON(agentwire.TypeExit, exit); err != nil {
		return err
	}
	return s.out.WriteJSON(agentwire.TypeTurned, agentwire.Turned{})
}

// started says that a turn has begun.
func (s *session) started(i *interpreter) error {
	return s.out.WriteJSON(agentwire.TypeStarted, agentwire.Started{Preloaded: i != nil && i.extraMemory > 0})
}

// execute has the interpreter execute the code, and returns when nothing of the session runs any more.
func (s *session) execute(i *interpreter, start agentwire.Start, t turn) (agentwire.Exit, error) {
	memoryLimit := start.Limits.MemoryMB<<20 + i.extraMemory
	before := i.cpu
	began := time.Now()
	word := i.tell(t.code)
	i.resume()
	if err := s.started(i); err != nil { // while the code runs already
		return agentwire.Exit{}, err
	}
	stop := make(chan agentwire.Cause, 4) // more than there are senders: no sender waits
	output := i.pump(s.stream(agentwire.TypeStdout, start), s.stream(agentwire.TypeStderr, start), stop)
	watched := watchGroup(i.group, watchLimits{
		memory: memoryLimit, cpu: before + cpuLimit(start.Limits), processes: maxProcesses(start.Limits.Processes),
	}, stop)
	exit := s.await(i, t, word, stop)
	exit.Usage.WallMS = time.Since(began).Milliseconds()
	if !exit.Lost && !stopAll(i.pid) { // it can't be kept from running
		exit.Lost = true
	}
	over := watched.finish()
	i.cpu = over.cpu
	late := func() { // what was told, or is seen, as the code ended
		select {
		case cause := <-stop:
			if exit.Cause == agentwire.Exited {
				exit.Cause = cause
			}
		default:
		}
	}
	if late(); exit.Cause == agentwire.Exited && over.memory > memoryLimit {
		exit.Cause = agentwire.Memory
	}
	if exit.Cause == agentwire.Memory || exit.Cause == agentwire.Processes || over.memory > memoryLimit { // it holds that still
		exit.Lost, exit.ExitCode, exit.Signal = true, 128+int(syscall.SIGKILL), "SIGKILL"
	}
	if exit.Lost {
		i.kill(memoryLimit)
	}
	truncated, err := output.end()
	if err = errors.Join(err, over.err); err != nil {
		return agentwire.Exit{}, err
	}
	i.finish(exit.Lost)
	exit.StdoutTruncated, exit.StderrTruncated = truncated[0], truncated[1]
	exit.Usage.CPUMS, exit.Usage.MemoryPeakBytes = (over.cpu - before).Milliseconds(), over.memory
	late() // its last output may have gone over the limit
	if exit.Cause == agentwire.Wall || exit.Cause == agentwire.CPU {
		exit.ExitCode, exit.Signal = job.TimedOutExitCode, ""
	}
	return exit, nil
}

// await waits until the interpreter says that the code has ended, or has ended itself. Code that has had its
// time, has printed too much or is to be interrupted gets a SIGINT. If that does not help, or the limit is one that can't
// wait, the state is lost.
func (s *session) await(i *interpreter, t turn, word <-chan int, stop <-chan agentwire.Cause) agentwire.Exit {
	exit := agentwire.Exit{Cause: agentwire.Exited}
	timer := time.NewTimer(t.wall)
	defer timer.Stop()
	interrupts := 0
	for {
		var cause agentwire.Cause
		select {
		case code, ok := <-word:
			if ok {
				exit.ExitCode = code
				return exit
			}
			word = nil // the interpreter can't say any more: its end will
			continue
		case ended := <-i.main:
			exit.Lost = true
			exit.ExitCode, exit.Signal = exitOf(ended.status)
			if i.failure != nil {
				exit.ExitCode, exit.Signal = i.failure.exitCode, ""
			}
			return exit
		case <-timer.C:
			cause = agentwire.Wall
		case cause = <-stop:
		case <-s.interrupt:
			cause = agentwire.Killed
		}
		urgent := cause != agentwire.Wall && cause != agentwire.Output && cause != agentwire.Killed
		if exit.Cause == agentwire.Exited { // what comes after is told by Lost
			exit.Cause = cause
		}
		if urgent || cause == agentwire.Wall && interrupts == maxInterrupts {
			exit.Lost, exit.ExitCode, exit.Signal = true, 128+int(syscall.SIGKILL), "SIGKILL"
			return exit
		}
		if interrupts == 0 || cause == agentwire.Wall {
			i.interrupt()
			interrupts++
			timer.Reset(interruptPatience)
		}
	}
}
