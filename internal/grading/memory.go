package grading

import "github.com/glovebox-run/glovebox/job"

// MemoryMB is the most that a check takes of the worker's memory, MiB. TestMemory has the worst documents
// that were found.
func MemoryMB(c job.Checker) int64 {
	switch c.Kind {
	case job.CheckJSON:
		return 256
	case job.CheckUnorderedLines:
		return 128
	case job.CheckRegex:
		return 64
	}
	return 1
}
