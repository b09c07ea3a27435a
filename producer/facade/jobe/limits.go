package jobe

import (
	"math"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

const (
	// leastMemoryMB is what a sandbox gets at least, and where a run names no limit of memory: address
	// space is mostly far more than what is used of it.
	leastMemoryMB = 512
	// leastProcesses is what a compiler starts.
	leastProcesses = 5
	// maxStreamKB is how long a stream may be, so that both together can be answered.
	maxStreamKB = 4 << 10
	// inputsMB is room for files besides those that the program writes.
	inputsMB = 32
)

// limits are those of a run, as far as the tenant's maximums go: a client that asks for more wants much.
func (s runSpec) limits(maximums job.Limits) job.Limits {
	whole := func(n float64, most int64) int64 { return int64(math.Ceil(max(min(n, float64(most)), 1))) }
	l := job.Limits{
		CPUMS: whole(s.cpuSeconds*1000, maximums.CPUMS), WallMS: whole(2*s.cpuSeconds*1000, maximums.WallMS),
		CompileWallMS: whole(max(2*s.cpuSeconds, facade.CompileTime.Seconds())*1000, maximums.WallMS),
		MemoryMB:      maximums.MemoryMB, OutputKB: whole(s.streamMB*1024, min(maximums.OutputKB, maxStreamKB)),
		Artifacts: 1, // nobody can read them
	}
	if space := min(s.addressSpaceMB(), float64(maximums.AddressSpaceMB)); space <= float64(maximums.MemoryMB) { // else it can't be used up
		l.AddressSpaceMB = int64(math.Ceil(space))
	}
	if s.memoryMB != 0 {
		l.MemoryMB = whole(max(s.memoryMB, leastMemoryMB), maximums.MemoryMB)
	}
	l.Processes = maximums.Processes
	if s.processes > 0 { // one more for the shell
		l.Processes = whole(max(s.processes+1, s.language.processes, leastProcesses), maximums.Processes)
	}
	l.FileMB, l.DiskMB = min(maximums.FileMB, maximums.DiskMB), maximums.DiskMB
	if s.diskMB >= 0 {
		l.FileMB = whole(s.diskMB, l.FileMB)
		l.DiskMB = whole(max(s.diskMB+inputsMB, float64(job.DefaultLimits.DiskMB)), maximums.DiskMB)
	}
	return l
}

// addressSpaceMB is the limit of each process's address space; 0 for none.
func (s runSpec) addressSpaceMB() float64 {
	if s.language.memoryMB == 0 || s.memoryMB < 0 {
		return s.language.memoryMB
	}
	return s.memoryMB
}
