package main

import (
	"fmt"
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

// groupWatch samples a group's memory every pollInterval, and the rest now and then.
type groupWatch struct {
	stop chan struct{}
	done chan groupUsage
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
	w := &groupWatch{stop: make(chan struct{}), done: make(chan groupUsage, 1)}
	if g.host != nil {
		g.host.preciseAbove = limits.memory
	}
	go func() {
		var most groupUsage
		tick := time.NewTicker(pollInterval)
		defer tick.Stop()
		said := false
		last := false
		for n := 1; !last; n++ {
			select {
			case <-tick.C:
			case <-w.stop:
				last = true // one more sample: short runs are over before the first
			}
			switch most.sampleMemory(g); {
			case last:
				most.sampleCPU(g)
			case n%restInterval == 0:
				most.sampleCPU(g)
				most.sampleProcesses(g)
			}
			if limits.holder != nil && most.memory > limits.holderLimit && !last {
				limits.holder.kill()
				limits.holder = nil
			}
			if most.err != nil && !said {
				said = true
				stop <- agentwire.Killed // a program that can't be watched is not run; the error is reported
			}
			over := agentwire.Cause("")
			switch {
			case most.memory > limits.memory:
				over = agentwire.Memory
			case most.cpu >= limits.cpu:
				over = agentwire.CPU
			case most.processes > limits.processes:
				over = agentwire.Processes
			}
			if over != "" && !said && !last {
				said = true
				stop <- over
			}
		}
		w.done <- most
	}()
	return w
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

// finish stops the watch and returns the most that it saw.
func (w *groupWatch) finish() groupUsage {
	close(w.stop)
	return <-w.done
}
