package direct_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// TestIsolation: less than gVisor takes the operator's word and the submitter's.
func TestIsolation(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t) // python, in gVisor
	if err := w.Worker.Fleet.PublishRuntimes(t.Context(), []fleet.Runtime{{Name: "tcl", Aliases: []string{"tclsh"}, Version: "8", File: "main.tcl", Isolation: job.Process}}); err != nil {
		t.Fatal(err)
	}
	allowing, err := direct.New(direct.Config{Isolations: []job.Isolation{job.Process}}, w.Records, w.Objects)
	if err != nil {
		t.Fatal(err)
	}
	defer allowing.Close()
	for name, c := range map[string]struct {
		client  *direct.Client
		spec    job.Spec
		refusal string // "": it is accepted
	}{
		"gVisor by default":              {w.Client, job.Spec{Runtime: "python"}, ""},
		"gVisor":                         {w.Client, job.Spec{Runtime: "python", Isolation: job.GVisor}, ""},
		"process, not allowed":           {w.Client, job.Spec{Runtime: "python", Isolation: job.Process}, "is not allowed by the operator of this Glovebox"},
		"unknown":                        {allowing, job.Spec{Runtime: "python", Isolation: "none"}, "is not allowed by the operator of this Glovebox"},
		"process, where there is gVisor": {allowing, job.Spec{Runtime: "python", Isolation: job.Process}, ""},
		"process, where there is that":   {allowing, job.Spec{Runtime: "tclsh", Isolation: job.Process}, ""},
		"gVisor, where there is process": {allowing, job.Spec{Runtime: "tcl"}, "is what no worker gives that has the runtime tcl"},
		"the same, where none may":       {w.Client, job.Spec{Runtime: "tcl"}, "is not a runtime of this Glovebox"},
	} {
		c.spec.Source = "1"
		j, err := c.client.Submit(t.Context(), c.spec)
		var invalid job.Invalid
		switch {
		case c.refusal == "" && err != nil:
			t.Errorf("%s: got %v", name, err)
		case c.refusal != "" && (!errors.As(err, &invalid) || !strings.Contains(invalid[0].Message, c.refusal)):
			t.Errorf("%s: got %+v, %v, want %q", name, j, err, c.refusal)
		}
	}
	list, err := allowing.Runtimes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		if (r.Isolation == job.Process) != (r.Name == "tcl") {
			t.Errorf("got %+v", r)
		}
	}
}
