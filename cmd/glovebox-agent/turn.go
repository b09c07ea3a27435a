package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
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
	// context is whose interpreter executes it: one of that generation, which is started by that command, there, if it is not there yet.
	context    string
	generation int
	language   string
	directory  string
	// contexts are the others, and their generations.
	contexts map[string]int
	anew     bool // the interpreter draws its random numbers anew
}

// newTurn is one of whose files and code nothing has come.
func newTurn(t agentwire.Turn) *turn {
	files := newInputs(workDir)
	files.replace, files.noLinks = true, t.Language == job.FilesLanguage
	return &turn{
		wall: time.Duration(t.WallMS) * time.Millisecond, files: files,
		context: t.Name(), generation: t.Generation, language: t.Language, directory: t.Directory, contexts: t.Contexts, anew: t.Anew,
	}
}

// beginFile begins a file of the turn that comes. Nothing of the session runs, and what a prepared process has left is gone.
func (s *session) beginFile(t *turn) error {
	<-s.clean
	return asJob(func() error { return t.files.begin(s.check.File) })
}

const (
	// interruptPatience is how long code may take to end that was interrupted, each time, and mostInterruptPatience where the machine stands still
	// meanwhile. interruptPause is when it is looked at again.
	interruptPatience     = time.Second
	mostInterruptPatience = 1500 * time.Millisecond
	interruptPause        = interruptPatience / leastLooks
	// maxInterrupts is how often it is, before its interpreter is killed: a signal can come while an interpreter
	// has no handler for it, or while Bash starts the program that it then waits for.
	maxInterrupts = 3
	// maskPatience is how long an interpreter may mask interrupts, in all: with the interrupts, less than the worker's grace. maskPause is when it
	// is looked at again.
	maskPatience = 5 * time.Second
	maskPause    = 2 * time.Millisecond
)

// queueTurn hands over the turn that has come.
func (s *session) queueTurn() error {
	for _, late := range []chan struct{}{s.interrupt, s.restart} { // it was for a turn that had ended
		select {
		case <-late:
		default:
		}
	}
	select {
	case s.turns <- *s.coming.turn:
		return nil
	default:
		return errors.New("a turn came while another waits")
	}
}

// runTurns has code executed as it comes, by interpreters that keep their state. When one ends, the next turn of its context gets a
// new one. Between two turns no process of the session runs, so no file changes while it is read, and all
// that is printed belongs to the turn that sends it. process, if there is one, was prepared and is the first interpreter already.
func (s *session) runTurns(start agentwire.Start, process *process) error {
	if err := wipeAs(jobID, "/tmp", "/dev/shm"); err != nil { // what a prepared process has left
		return err
	}
	c, err := newContexts(start, process)
	if err != nil {
		return err
	}
	defer c.group.close()
	files := s.inputs.sums
	if process != nil {
		s.takenUp = slices.Collect(maps.Keys(files))
	}
	if process == nil && len(start.Become) > 0 { // the code of a prepared one
		if err := wipeAs(jobID, workDir); err != nil {
			return err
		}
	}
	close(s.clean)
	for {
		t, ok, err := s.nextTurn(c)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		maps.Copy(files, t.files.sums)
		if t.language == job.FilesLanguage {
			if err := s.filesTurn(c, t, files); err != nil {
				return err
			}
			continue
		}
		i, problem, refused, err := s.interpreterOf(c, t)
		if err != nil {
			return err
		}
		if problem != "" {
			if err := s.refuseTurn(c, t, problem, refused); err != nil {
				return err
			}
			continue
		}
		exit, err := s.execute(c, i, t)
		if err != nil {
			return fmt.Errorf("execute code: %w", err)
		}
		if len(c.all) == 0 {
			if err := awaitFreed(); err != nil {
				return err
			}
		}
		s.out.Hold()
		if err := s.out.WriteJSON(agentwire.TypeExit, exit); err != nil {
			return err
		}
		k := collector{root: workDir, limits: start.Limits, inputs: files, send: s, sums: map[string]sum{}}
		if err := asJob(k.collect); err != nil {
			return err
		}
		files = k.sums
		if err := s.out.WriteJSON(agentwire.TypeTurned, agentwire.Turned{SkippedTotal: k.skipped}); err != nil {
			return err
		}
		if err := s.out.Release(); err != nil {
			return err
		}
	}
	killAll()
	return s.out.WriteJSON(agentwire.TypeEnd, agentwire.End{})
}

// contextGone is why a turn is refused whose context was lost as others were ended.
const contextGone = "glovebox: the context's state was lost as another context was ended, and this code was not executed"

// interpreterOf returns the one that executes the turn. problem, if set, says why none does, and refused how the turn ends then.
func (s *session) interpreterOf(c *contexts, t turn) (i *interpreter, problem string, refused agentwire.Exit, err error) {
	refused = agentwire.Exit{Cause: agentwire.Exited, ExitCode: 1}
	same, ran := c.keep(t), c.stirred
	c.stirred = false
	if of := c.all[t.context]; t.anew && of != nil {
		of.anew = true // also where this turn is refused
	}
	switch {
	case !same && ran:
		problem, refused.Lost, refused.Usage.CPUMS = stirred, true, c.stirredFor.Milliseconds()
	case !same:
		problem, refused.Lost = contextGone, true
	case t.files.problem != "":
		problem = t.files.problem
	default:
		i, problem, err = c.open(t)
	}
	if problem != "" {
		refused.LostContexts = c.takeLost(t)
	}
	return i, problem, refused, err
}

// refuseTurn is a turn whose code is not executed.
func (s *session) refuseTurn(c *contexts, t turn, problem string, exit agentwire.Exit) error {
	if err := s.started(c.preloaded(t.context)); err != nil {
		return err
	}
	if err := s.stream(agentwire.TypeStderr, c.start).add([]byte(problem + "\n")); err != nil {
		return err
	}
	if err := s.out.WriteJSON(agentwire.TypeExit, exit); err != nil {
		return err
	}
	return s.out.WriteJSON(agentwire.TypeTurned, agentwire.Turned{})
}

// started says that a turn has begun.
func (s *session) started(preloaded bool) error {
	return s.out.WriteJSON(agentwire.TypeStarted, agentwire.Started{Preloaded: preloaded})
}

// execute has the interpreter execute the code, and returns when nothing of the session runs any more.
func (s *session) execute(c *contexts, i *interpreter, t turn) (agentwire.Exit, error) {
	memoryLimit := c.memoryLimit()
	before, present := c.cpu, maps.Clone(c.all)
	began := time.Now()
	told := i.tell(t.code)
	resume()
	if err := s.started(c.preloaded(t.context)); err != nil { // while the code runs already
		return agentwire.Exit{}, err
	}
	shown := &shown{send: func(p []byte) error { return s.sendBulk(agentwire.TypeShown, p) }}
	word := i.hear(told, shown)
	stop := make(chan agentwire.Cause, 4) // more than there are senders: no sender waits
	output := c.pump(s.stream(agentwire.TypeStdout, c.start), s.stream(agentwire.TypeStderr, c.start), stop)
	watched := watchGroup(c.group, watchLimits{
		memory: memoryLimit, cpu: before + cpuLimit(c.start.Limits), processes: maxProcesses(c.start.Limits.Processes),
	}, stop)
	exit := s.await(i, t, word, stop)
	exit.Usage.WallMS = time.Since(began).Milliseconds()
	if !exit.Lost && !stopAll(i.pid) { // they can't be kept from running
		c.endAll()
		exit.Lost = true
	}
	if !exit.Lost && !hasStopped(i.pid) && i.dead() { // it ended right behind its answer
		exit.Lost = true
	}
	over := watched.finish()
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
		if c.all[t.context] == i {
			c.end(t.context)
		}
		if exit.Cause == agentwire.Processes { // others may have started them
			c.endAll()
		}
		if !c.freed() { // it is others that hold it
			c.endAll()
			c.freed()
		}
	}
	c.endDead(t.context)
	c.began, c.cpu = true, over.cpu
	if exit.Lost || len(c.lost) > 0 { // what was ended ran until it was
		if used, err := c.group.cpu(); err == nil {
			c.cpu = used
		}
	}
	truncated, err := output.end(i.failure)
	if err = errors.Join(err, over.err); err != nil {
		return agentwire.Exit{}, err
	}
	c.finish(present)
	exit.Lost = exit.Lost || c.isLost(t.context, t.generation)
	exit.LostContexts = c.takeLost(t)
	exit.StdoutTruncated, exit.StderrTruncated, exit.ShownLeftOut = truncated[0], truncated[1], shown.leftOut
	exit.Usage.CPUMS, exit.Usage.MemoryPeakBytes = (over.cpu - before).Milliseconds(), over.memory
	late() // its last output may have gone over the limit
	if exit.Cause == agentwire.Wall || exit.Cause == agentwire.CPU {
		exit.ExitCode, exit.Signal = job.TimedOutExitCode, ""
	}
	return exit, nil
}

// await waits until the interpreter says that the code has ended, or has ended itself. Code that has had its
// time, has printed too much or is to be interrupted gets a SIGINT, as soon as its interpreter bears one. If that does not help, or the limit is one
// that can't wait, the state is lost.
func (s *session) await(i *interpreter, t turn, word <-chan int, stop <-chan agentwire.Cause) agentwire.Exit {
	exit := agentwire.Exit{Cause: agentwire.Exited}
	timer := time.NewTimer(t.wall)
	defer timer.Stop()
	interrupts := 0
	masked := patientFor(maskPatience)
	var answer *patience // for the code to end that was interrupted
	var asked time.Time
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
		case <-s.restart:
			exit.Cause = agentwire.Killed
			exit.Lost, exit.ExitCode, exit.Signal = true, 128+int(syscall.SIGKILL), "SIGKILL"
			return exit
		}
		urgent := cause != agentwire.Wall && cause != agentwire.Output && cause != agentwire.Killed
		isFirst := exit.Cause == agentwire.Exited
		if isFirst { // what comes after is told by Lost
			exit.Cause = cause
		}
		waits := answer != nil && !answer.isOver() && time.Since(asked) < mostInterruptPatience
		if urgent || cause == agentwire.Wall && !waits && (interrupts == maxInterrupts || masked.isOver()) {
			exit.Lost, exit.ExitCode, exit.Signal = true, 128+int(syscall.SIGKILL), "SIGKILL"
			return exit
		}
		switch {
		case !isFirst && cause != agentwire.Wall: // the timer has the next one
		case waits:
			timer.Reset(interruptPause)
		case i.interrupt():
			interrupts++
			answer, asked = patientFor(interruptPatience), time.Now()
			timer.Reset(interruptPause)
		default:
			timer.Reset(maskPause)
		}
	}
}
