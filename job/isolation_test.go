package job_test

import (
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestSuffices: nothing runs in less than it accepts, nor where anything about it is unknown.
func TestSuffices(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		have, least job.Isolation
		want        bool
	}{
		{job.GVisor, job.GVisor, true},
		{job.GVisor, job.Process, true},
		{job.Process, job.Process, true},
		{job.Process, job.GVisor, false},
		{"", "", true},
		{job.Process, "", false},
		{"", job.Process, true},
		{"none", job.Process, false},
		{"none", "none", false},
		{job.GVisor, "none", false},
	} {
		if got := c.have.Suffices(c.least); got != c.want {
			t.Errorf("%q for what accepts %q: got %v, want %v", c.have, c.least, got, c.want)
		}
	}
	if _, err := job.ParseIsolation("none"); err == nil {
		t.Error("none is taken for an isolation")
	}
}

// TestIsolationNeeds: an older worker would not know that it has to tell, and what says no more than before needs no newer one.
func TestIsolationNeeds(t *testing.T) {
	t.Parallel()
	for least, want := range map[job.Isolation]int{"": 1, job.GVisor: 1, job.Process: 7} {
		if got := (job.Spec{Isolation: least}).Needs(); got != want {
			t.Errorf("%q: got %d, want %d", least, got, want)
		}
	}
	err := job.Spec{Runtime: "python", Source: "1", Isolation: "none"}.Check([]string{"python"}, nil, job.DefaultMaximums)
	if err == nil {
		t.Error("an unknown one is accepted")
	}
}
