package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
)

// maxProcesses is how many processes a run may have before it is ended. RLIMIT_NPROC refuses a
// fork long before; this is a second line, should it ever not.
func maxProcesses(processes int64) int64 { return 2*processes + 16 }

// restInterval: every so many samples of memory, CPU time and processes are sampled, too. The
// kernel bounds both for each process, and a sample is expensive while programs start.
const restInterval = 4

// groupWatch samples a group's memory every pollInterval, and the rest now and then. Most runs on tests end before the first sample, so it is
// a timer: a goroutine for each would wake threads.
type groupWatch struct {
	group  group
	limits watchLimits
	stop   chan<- agentwire.Cause

	mu       sync.Mutex // of what follows
	timer    *time.Timer
	samples  int
	most     groupUsage
	said     bool
	finished bool
}

// groupUsage is the most that a group was seen to use.
type groupUsage struct {
	memory    int64
	cpu       time.Duration
	processes int64
	err       error
}

// watchLimits are what ends a run.
type watchLimits struct {
	memory    int64
	cpu       time.Duration
	processes int64
	// holder is killed when the group holds more than holderLimit; nil: there is none.
	holder      *memoryHolder
	holderLimit int64
}

func cpuLimit(l job.Limits) time.Duration { return time.Duration(l.CPUMS) * time.Millisecond }

// watchGroup sends on stop, once, when the group is over a limit.
func watchGroup(g group, limits watchLimits, stop chan<- agentwire.Cause) *groupWatch {
	w := &groupWatch{group: g, limits: limits, stop: stop}
	if g.host != nil {
		g.host.preciseAbove = limits.memory
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(pollInterval, w.look)
	return w
}

// look takes a sample, and has the run ended that is over a limit.
func (w *groupWatch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.finished {
		return
	}
	w.samples++
	w.most.sampleMemory(w.group)
	if w.samples%restInterval == 0 {
		w.most.sampleCPU(w.group)
		w.most.sampleProcesses(w.group)
	}
	if w.limits.holder != nil && w.most.memory > w.limits.holderLimit {
		w.limits.holder.kill()
		w.limits.holder = nil
	}
	over := agentwire.Cause("")
	switch {
	case w.most.err != nil:
		over = agentwire.Killed // a program that can't be watched is not run; the error is reported
	case w.most.memory > w.limits.memory:
		over = agentwire.Memory
	case w.most.cpu >= w.limits.cpu:
		over = agentwire.CPU
	case w.most.processes > w.limits.processes:
		over = agentwire.Processes
	}
	if over != "" && !w.said {
		w.said = true
		w.stop <- over
	}
	w.timer.Reset(pollInterval)
}

// sample is what a run has used at its end.
func (s *groupUsage) sample(g group) {
	s.sampleMemory(g)
	s.sampleCPU(g)
}

func (s *groupUsage) sampleMemory(g group) {
	memory, err := g.memory()
	if err != nil {
		s.err = fmt.Errorf("watch memory: %w", err)
	}
	s.memory = max(s.memory, memory)
}

func (s *groupUsage) sampleCPU(g group) {
	cpu, err := g.cpu()
	if err != nil {
		s.err = fmt.Errorf("watch cpu time: %w", err)
	}
	s.cpu = max(s.cpu, cpu)
}

func (s *groupUsage) sampleProcesses(g group) {
	processes, err := g.processes()
	if err != nil {
		s.err = fmt.Errorf("watch processes: %w", err)
	}
	s.processes = max(s.processes, processes)
}

// finish stops the watch and returns the most that it saw, now included: short runs are over before the first look.
func (w *groupWatch) finish() groupUsage {
	w.timer.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished = true
	w.most.sample(w.group)
	return w.most
}
