package job_test

import (
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// Each job that is accepted has its limits filled and checked several times.
func TestLimitsAllocateNothing(t *testing.T) {
	maximums := job.DefaultMaximums
	if n := testing.AllocsPerRun(100, func() {
		l := job.Limits{WallMS: 1000}.Within(job.DefaultLimits, maximums)
		if l.Filled(job.DefaultLimits).WallMS != 1000 || l.Check(maximums) != nil {
			t.Fatal("other limits")
		}
	}); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
