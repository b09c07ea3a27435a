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
		"unknown":                        {allowing, job.Spec{Runtime: "python", Isolation: "none"}, "is no isolation"},
		"unknown, where there is one":    {w.Client, job.Spec{Runtime: "python", Isolation: "x"}, "is no isolation"},
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
	judge := &job.Checker{Kind: job.CheckKattis, Program: &job.CheckerProgram{Runtime: "tcl", Source: "1"}}
	for name, c := range map[string]struct {
		client  *direct.Client
		problem job.Problem
		refusal string
	}{
		"gVisor":                         {w.Client, job.Problem{Runtimes: []string{"python"}}, ""},
		"process":                        {allowing, job.Problem{Runtimes: []string{"python", "tcl"}}, ""},
		"process, not allowed":           {w.Client, job.Problem{Runtimes: []string{"tcl"}}, "is not a runtime of this Glovebox"},
		"a checker of process":           {allowing, job.Problem{Runtimes: []string{"python"}, Checker: judge}, ""},
		"a checker of that, not allowed": {w.Client, job.Problem{Runtimes: []string{"python"}, Checker: judge}, "is not a runtime of this Glovebox"},
	} {
		c.problem.Tests = []job.Test{{Name: "1", Answer: "1"}}
		head, err := c.client.StoreProblem(t.Context(), c.problem)
		var invalid job.Invalid
		switch {
		case c.refusal == "" && err != nil:
			t.Errorf("a problem, %s: got %v", name, err)
		case c.refusal != "" && (!errors.As(err, &invalid) || !strings.Contains(invalid[0].Message, c.refusal)):
			t.Errorf("a problem, %s: got %+v, %v, want %q", name, head, err, c.refusal)
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

// TestProblemWithoutGVisor: problems are stored, and graded by, where every worker isolates by less than gVisor.
func TestProblemWithoutGVisor(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	if err := w.Worker.Fleet.PublishRuntimes(t.Context(), []fleet.Runtime{{Name: "tcl", Version: "8", File: "main.tcl", Isolation: job.Process}}); err != nil {
		t.Fatal(err)
	}
	allowing, err := direct.New(direct.Config{Isolations: []job.Isolation{job.Process}}, w.Records, w.Objects)
	if err != nil {
		t.Fatal(err)
	}
	defer allowing.Close()
	head, err := allowing.StoreProblem(t.Context(), job.Problem{Tests: []job.Test{{Name: "1", Answer: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := allowing.Submit(t.Context(), job.Spec{Problem: head.Digest, Runtime: "tcl", Source: "1", Isolation: job.Process}); err != nil {
		t.Error(err)
	}
	if _, err := w.Client.StoreProblem(t.Context(), job.Problem{Tests: []job.Test{{Name: "1", Answer: "2"}}}); !errors.Is(err, job.ErrNoRuntimes) {
		t.Errorf("where less is not allowed: got %v", err)
	}
}
