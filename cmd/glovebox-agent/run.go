package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
)

// run is one program of the job, from its start to the end of its last process.
type run struct {
	name string
	// shared is the group of that name, which stays open; nil: the run has its own.
	shared *group
	// streams, if set, are its standard streams except stdin, made for its user before.
	streams *pipes
	argv    []string
	env     map[string]string
	limits  job.Limits
	stdin   *os.File // nil: empty
	stdout  *output
	stderr  *output // nil: with stdout
	// mergeStderr gives the program one pipe for both streams; stderr is for the agent's words then.
	mergeStderr bool
	started     func() error
	killed      <-chan struct{}
	// signals are sent to each of its processes as they come; nil: none do.
	signals <-chan syscall.Signal
	// testID is uid and gid of a run on a test, which no other has; 0: the job's.
	testID uintptr
	// noIPC refuses what outlives processes and is no file.
	noIPC bool
	// noInternet refuses sockets of the internet's protocols.
	noInternet bool
	// process, if set, was prepared and is the program's already; otherwise one is started.
	process *process
	// extraMemory is what it may hold beside limits.MemoryMB, bytes.
	extraMemory int64
	// control is the control socket of a process that is prepared, which has no limits yet; or, with
	// limitControl, of one that has them.
	control      *os.File
	limitControl bool
	// server, if set, makes the process, and args are what it is told behind those of argv.
	server *forkServer
	args   []string
	// forks is for a fork server: it keeps the right to take other ids.
	forks bool
	// dir is where it is started; "" is the job's directory. mark is one more cgroup that it joins, by its directory; "" is none.
	dir, mark string
}

// process is a program's first process, with the ends of its streams.
type process struct {
	pid   int
	group group
	pipes pipes
	// preloaded is what it, or its group, had used as it became the program's.
	preloaded groupUsage
	// holder shares its memory; nil: there is none.
	holder *memoryHolder
	// sessionControl is the control socket of one that was prepared and is a session's interpreter.
	sessionControl *os.File
}

// ending is how a run ended.
type ending struct {
	agentwire.Exit
	// message is what a program that could not be executed can't say itself.
	message string
}

// do runs the program, and returns when none of its processes is left and everything that
// they printed is sent. An error is the agent's own failure.
func (r *run) do() (ending, error) {
	// Before the start: a program that multiplies leaves the agent no time after it.
	if r.started != nil {
		if err := r.started(); err != nil {
			return ending{}, err
		}
	}
	var failure *execFailure
	if r.process == nil {
		begun, failed, err := r.startProcess()
		if err != nil {
			return ending{}, err
		}
		r.process, failure = &begun, failed
	}
	pipes, before := r.process.pipes, r.process.preloaded
	memoryLimit := r.limits.MemoryMB<<20 + r.extraMemory
	stop := make(chan agentwire.Cause, 4) // more than there are senders: no sender waits

	var pumps sync.WaitGroup
	pumpErrs := make(chan error, 2)
	exceeded := sync.OnceFunc(func() { stop <- agentwire.Output })
	pump := func(o *output, f *os.File) {
		if o == nil || f == nil {
			return
		}
		pumps.Go(func() {
			if err := o.pump(f, exceeded); err != nil {
				pumpErrs <- err
			}
		})
	}
	began := time.Now()
	pump(r.stdout, pipes.stdout)
	pump(r.stderr, pipes.stderr)

	main := make(chan mainExit, 1)
	if r.process.pid == 0 { // refused before there was a process
		main <- mainExit{}
	}
	used := make(chan usage, 1)
	if r.server != nil {
		go r.server.awaitEnd(r.testID, main, used)
	} else {
		go reap(r.process.pid, r.process.holder, main, used)
	}
	watched := watchGroup(r.process.group, watchLimits{
		memory: memoryLimit, cpu: before.cpu + cpuLimit(r.limits), processes: maxProcesses(r.limits.Processes),
		holder: r.process.holder, holderLimit: before.memory + maxHeldMemory,
	}, stop)

	var end ending
	ended, cause := r.wait(main, stop)
	status := ended.status
	end.Cause = cause
	wall := time.Since(began)
	over := watched.finish() // before memory is freed: gVisor counts none meanwhile
	total := killUntilGone(r.signalAll, used, ended.used, r.process.holder)
	if r.shared == nil {
		r.process.group.close()
	}
	if r.server != nil && r.server.failure != nil {
		return ending{}, r.server.failure
	}
	over.cpu, total.cpu = over.cpu-before.cpu, total.cpu-before.cpu
	if err := errors.Join(noWriters(pipes.stdout), noWriters(pipes.stderr)); err != nil {
		return ending{}, err
	}
	pumps.Wait()
	pipes.closeOurSide()
	close(pumpErrs)
	if err := <-pumpErrs; err != nil {
		return ending{}, err
	}
	if over.err != nil {
		return ending{}, over.err
	}

	end.Usage = job.Usage{
		WallMS: wall.Milliseconds(),
		CPUMS:  max(over.cpu, total.cpu).Milliseconds(),
		// The kernel's own figure includes peaks between two samples, but also what a
		// thread's stack may take. The watch would have seen more than the limit.
		MemoryPeakBytes: max(over.memory, min(total.maxRSS, memoryLimit)),
	}
	end.ExitCode, end.Signal = exitOf(status)
	if end.Cause == agentwire.Exited {
		select { // its last output may have gone over the limit
		case end.Cause = <-stop:
		default:
		}
	}
	switch {
	case end.Cause != agentwire.Exited:
	case over.memory > memoryLimit: // it ended before the next sample
		end.Cause = agentwire.Memory
	case over.cpu >= cpuLimit(r.limits) && status.Signaled():
		end.Cause = agentwire.CPU // RLIMIT_CPU was first
	}
	if end.Cause == agentwire.Wall || end.Cause == agentwire.CPU {
		end.ExitCode, end.Signal = job.TimedOutExitCode, ""
	}
	if failure != nil {
		end.message = failure.message + "\n"
		end.Cause, end.ExitCode, end.Signal = agentwire.Exited, failure.exitCode, ""
	}
	return end, nil
}

// startProcess starts the process. failure is set if its command could not be executed, which
// is the job's own fault.
func (r *run) startProcess() (_ process, failure *execFailure, err error) {
	var g group
	var before groupUsage
	if r.shared == nil {
		g, err = newGroup(r.name)
	} else {
		g = *r.shared
		before.cpu, err = g.cpu() // of the runs before
	}
	if err != nil {
		return process{}, nil, err
	}
	p, err := r.openPipes()
	if err != nil {
		return process{}, nil, err
	}
	var pid int
	if r.server != nil {
		if pid, err = r.server.fork(r, p); err != nil { // no code of the job was run
			r.server.discard()
			r.server = nil
		}
	}
	if r.server == nil {
		pid, failure, err = r.start(g, p)
	}
	p.closeJobSide()
	if err != nil {
		killAll()
		return process{}, nil, err
	}
	return process{pid: pid, group: g, pipes: p, preloaded: before}, failure, nil
}

// wait waits for the main process to end, by itself, at a limit or because the worker asked for
// it. When it returns, the main process is dead or about to be.
func (r *run) wait(main <-chan mainExit, stop <-chan agentwire.Cause) (mainExit, agentwire.Cause) {
	timer := time.NewTimer(time.Duration(r.limits.WallMS) * time.Millisecond)
	defer timer.Stop()
	cause := agentwire.Exited
	for cause == agentwire.Exited {
		select {
		case ended := <-main:
			// A stream that went over its limit in the same moment still counts.
			select {
			case cause = <-stop:
			default:
			}
			return ended, cause
		case <-timer.C:
			cause = agentwire.Wall
		case cause = <-stop:
		case <-r.killed:
			cause = agentwire.Killed
		case signal := <-r.signals:
			r.signalAll(signal)
		}
	}
	r.signalAll(syscall.SIGKILL)
	return <-main, cause
}

// signalAll sends a signal to every process of the run.
func (r *run) signalAll(signal syscall.Signal) {
	if r.server != nil {
		_ = signalUser(r.testID, signal) // ESRCH: there is none
		return
	}
	_ = syscall.Kill(-1, signal)
}

// exitOf returns the exit code as a shell has it, and the signal's name.
func exitOf(status syscall.WaitStatus) (code int, signal string) {
	if status.Signaled() {
		sig := status.Signal()
		name := unix.SignalName(sig)
		if name == "" {
			name = fmt.Sprintf("SIG%d", int(sig))
		}
		return 128 + int(sig), name
	}
	return status.ExitStatus(), ""
}

// pipes are the ends of a run's standard streams.
type pipes struct {
	stdin          *os.File
	stdout, stderr *os.File // ours
	jobOut, jobErr *os.File
}

func (r *run) openPipes() (pipes, error) {
	var p pipes
	if r.streams != nil {
		p = *r.streams
	} else {
		var err error
		if p, err = newPipes(cmp.Or(r.testID, jobID), r.stderr != nil && !r.mergeStderr); err != nil {
			return p, err
		}
	}
	if p.stdin = r.stdin; p.stdin == nil {
		fd, err := open(os.DevNull, 0)
		if err != nil {
			return p, fmt.Errorf("open empty stdin: %w", err)
		}
		p.stdin = os.NewFile(uintptr(fd), os.DevNull)
	}
	return p, nil
}

// newPipes makes a user's stdout and stderr, or one for both. The user may open them again then: /dev/stderr, which shell
// scripts write to.
func newPipes(user uintptr, both bool) (p pipes, err error) {
	err = asUser(user, func() error {
		if p.stdout, p.jobOut, err = newPipe(); err != nil {
			return err
		}
		p.jobErr = p.jobOut
		if both {
			p.stderr, p.jobErr, err = newPipe()
		}
		return err
	})
	if err != nil {
		return p, fmt.Errorf("make pipe: %w", err)
	}
	return p, nil
}

// newPipe is [os.Pipe] with half its system calls: only our end is to be polled, and the other never waits in the agent.
func newPipe() (ours, theirs *os.File, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	if _, err := unix.FcntlInt(uintptr(ends[0]), unix.F_SETFL, unix.O_NONBLOCK); err != nil {
		return nil, nil, errors.Join(err, unix.Close(ends[0]), unix.Close(ends[1]))
	}
	return os.NewFile(uintptr(ends[0]), "output"), os.NewFile(uintptr(ends[1]), "output"), nil
}

func (p pipes) closeJobSide() {
	p.stdin.Close()
	p.jobOut.Close()
	p.jobErr.Close()
}

func (p pipes) closeOurSide() {
	p.stdout.Close()
	if p.stderr != nil {
		p.stderr.Close()
	}
}
