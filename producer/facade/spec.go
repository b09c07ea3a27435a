package facade

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/job"
)

// Fit raises a spec's limit of what it brings to what it does bring, as far as the tenant's maximums go: clients
// of façades can't say how much that is to be.
func Fit(spec *job.Spec, maximums job.Limits) {
	if needed := (spec.InputBytes() + 1<<10 - 1) >> 10; needed > job.DefaultLimits.SourceKB {
		spec.Limits.SourceKB = min(needed, max(maximums.SourceKB, job.DefaultLimits.SourceKB))
	}
}

// SignalNumber is that of a result's signal. Signals without a name are called SIG34 and so on there.
func SignalNumber(name string) int {
	if n := unix.SignalNum(name); n != 0 {
		return int(n)
	}
	n, _ := strconv.Atoi(strings.TrimPrefix(name, "SIG")) // 0 for one that nobody knows
	return n
}
