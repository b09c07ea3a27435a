package facade

import (
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestFit: what a request brings passes the check up to the tenant's maximum, and is refused as too large beyond it.
func TestFit(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]string{1: "", 1 << 20: "", 1<<20 + 1: "", 16 << 20: "", 16<<20 + 1: "source: is too large"} {
		spec := job.Spec{Runtime: "x", Source: "s", Stdin: strings.Repeat("x", size-1)}
		Fit(&spec, job.DefaultMaximums)
		err := spec.Check([]string{"x"}, nil, job.DefaultMaximums)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: got %v, want %q", size, err, want)
		}
	}
	small := job.DefaultMaximums
	small.SourceKB = 10
	spec := job.Spec{Runtime: "x", Source: "s"}
	if Fit(&spec, small); spec.Limits.SourceKB != 0 {
		t.Errorf("a small one of a tenant with little: got %d KiB", spec.Limits.SourceKB)
	}
}

func TestSignalNumber(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"SIGSEGV": 11, "SIGKILL": 9, "SIG34": 34, "": 0, "SIGNOT": 0} {
		if got := SignalNumber(name); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
}
