package kattis

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// TestValidator: where a package's own validator may be, and what it becomes.
func TestValidator(t *testing.T) {
	t.Parallel()
	legacy := smallest + "-- problem.yaml --\nvalidation: custom score\nvalidator_flags: a\nlimits: {validation_time: 5, validation_memory: 300}\n"
	newer := smallest + "-- problem.yaml --\nproblem_format_version: 2025-09\nconstants: {N: 7}\n"
	tests := []struct {
		name, text string
		want       string // language, entrypoint, files, compile command; "": the default checker
	}{
		{"none", smallest, ""},
		{"not used", smallest + "-- output_validators/v.py --\n", ""},
		{"default, by its word", newer + "validation: default\n-- output_validator/v.py --\n", ""},
		{"a file", legacy + "-- output_validators/v.py --\n", "output_validators python3 v.py [v.py]"},
		{"a folder", legacy + "-- output_validators/check/v.py --\n-- output_validators/check/a.py --\n", "output_validators/check python3 a.py [a.py v.py]"},
		{"a main file", newer + "-- output_validator/a.py --\n-- output_validator/__main__.py --\n", "output_validator python3 __main__.py [__main__.py a.py]"},
		{"a source with a header", newer + "-- output_validator/v.cc --\n-- output_validator/testlib.h --\n", "output_validator cpp v.cc [testlib.h v.cc]"},
		{"the other name", newer + "-- output_validators/v.c --\n", "output_validators c v.c [v.c]"},
		{"sources and a folder", newer + "-- output_validator/v.c --\n-- output_validator/lib/l.c --\n", "output_validator c lib/l.c [lib/l.c v.c] gcc -O2 -o /tmp/main lib/l.c v.c -lm"},
		{"constants", newer + "-- output_validator/v.py --\nprint({{N}})\n", "output_validator python3 v.py [v.py]"},
		{"a build script", legacy + "-- output_validators/check/build --\n-- output_validators/check/v.py --\n", "output_validators/check build and run scripts  [build v.py] chmod +x build && ./build && chmod +x run"},
		{"a build script for a smaller image", legacy + "-- output_validators/build --\n#!/bin/sh\n# Builds it.\n# glovebox-language: cpp\nc++ v.cpp\n-- output_validators/v.cpp --\n", "output_validators cpp  [build v.cpp] chmod +x build && ./build && chmod +x run"},
		{"a run script for a smaller image", newer + "-- output_validator/build --\n#!/bin/sh\n\n# glovebox-language: cpp\n-- output_validator/run --\n# glovebox-language:c\n", "output_validator c  [build run] chmod +x build && ./build && chmod +x run"},
		{"a run script", newer + "-- output_validator/run --\n-- output_validator/lib/build --\n", "output_validator build and run scripts  [lib/build run] chmod +x run"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := Read(pack(tt.text + "-- data/secret/test_group.yaml --\noutput_validator_args: [case_sensitive]\n"))
			if err != nil {
				t.Fatal(err)
			}
			spec, err := p.Spec(Program{Runtime: "c", Files: []job.File{{Name: "a.c"}}}, Run{Time: time.Second, Validator: "its runtime"})
			if err != nil {
				t.Fatal(err)
			}
			v, c := p.Validator, spec.Checker
			if tt.want == "" {
				if v != nil || c.Kind != job.CheckDefault || c.Program != nil || spec.Tests[0].CheckerArgs != nil {
					t.Fatalf("got the validator %+v, checker %+v", v, c)
				}
				return
			}
			got := fmt.Sprint(v.Path, " ", v.Language, " ", v.Entrypoint, " ", namesOf(v.Files))
			if v.Commands != nil {
				got += " " + v.Commands.Compile
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if c.Kind != job.CheckKattis || c.Program.Runtime != "its runtime" || !slices.Equal(spec.Tests[0].CheckerArgs, []string{"case_sensitive"}) || spec.SpecVersion != 6 {
				t.Errorf("got %+v, %+v", c, spec.Tests[0])
			}
			if tt.name == "a file" && (c.Program.Limits.WallMS != 5000 || c.Program.Limits.MemoryMB != 300 || !slices.Equal(c.Args, []string{"a"})) {
				t.Errorf("got the limits %+v, arguments %q", c.Program.Limits, c.Args)
			}
			if tt.name == "constants" && v.Files[0].Content != "print(7)\n" {
				t.Errorf("got %q", v.Files[0].Content)
			}
			spec.Runtime, spec.Checker.Program.Runtime = "c", "c"
			if err := spec.Check([]string{"c"}, nil, job.DefaultMaximums); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLimitsByDefault: how much memory a validator has where the package doesn't say, by the size of the largest test and of outputs;
// and that stacks may have as much as there is of memory, and gVisor gives.
func TestLimitsByDefault(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limits                string
		inputMB               int
		validationMB, stackMB int64
	}{
		{"{}", 0, 0, 128},
		{"{memory: 64}", 0, 0, 64},
		{"{}", 60, 512, 128},
		{"{output: 100}", 60, 644, 128},
		{"{output: 1000}", 0, 2048, 128},
		{"{output: 1000, validation_memory: 300}", 60, 300, 128},
	} {
		files := with("-- problem.yaml --\nvalidation: custom\nlimits: "+tt.limits+"\n-- output_validators/v.py --\n", "secret/1", "secret/2")
		files["data/secret/2.in"].Data = make([]byte, tt.inputMB<<20)
		p, err := Read(files)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := p.Spec(Program{Runtime: "c", Files: []job.File{{Name: "a.c"}}}, Run{Time: time.Second, Validator: "c", Uploads: map[string]string{"data/secret/2.in": "x"}})
		if err != nil {
			t.Fatal(err)
		}
		stored, err := p.Stored(Run{Time: time.Second, Validator: "c", Uploads: map[string]string{"data/secret/2.in": "x"}}, func(string) (string, error) { return "c", nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []struct {
			checker *job.Checker
			limits  job.Limits
		}{{spec.Checker, spec.Limits}, {stored.Checker, stored.Limits}} {
			if mb := got.checker.Program.Limits.MemoryMB; mb != tt.validationMB || got.limits.StackMB != tt.stackMB {
				t.Errorf("%s with %d MiB of input: the validator has %d MiB, a stack %d; want %d, %d", tt.limits, tt.inputMB, mb, got.limits.StackMB, tt.validationMB, tt.stackMB)
			}
		}
	}
}

// TestPasses: what makes a problem multi-pass, and how long each pass may take.
func TestPasses(t *testing.T) {
	t.Parallel()
	const newer = "problem_format_version: 2025-09\n"
	for _, tt := range []struct {
		name, yaml string
		passes     int   // of the checker; 0: it is not multi-pass
		wallMS     int64 // of a pass
	}{
		{"2025-09", newer + "type: multi-pass", 2, 21_000},
		{"2025-09, with a list", newer + "type: [scoring, multi-pass]\nlimits: {validation_passes: 5}", 5, 21_000},
		{"2023-07", "problem_format_version: 2023-07-draft\ntype: pass-fail multi-pass", 2, 21_000},
		{"legacy", "validation: custom multi-pass\nlimits: {validation_passes: 3}", 3, 21_000},
		{"with little time for each", newer + "type: multi-pass\nlimits: {validation_passes: 100}", 100, 11_250},
		{"one", newer + "type: multi-pass\nlimits: {validation_passes: 1}", 0, 21_000},
		{"none", newer + "limits: {validation_passes: 5}", 0, 21_000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := "-- output_validator/v.py --\n"
			p, err := Read(with("-- problem.yaml --\n"+tt.yaml+"\n"+dir, "secret/1", "secret/2"))
			if err != nil {
				t.Fatal(err)
			}
			spec, err := p.Spec(Program{Runtime: "c", Files: []job.File{{Name: "a.c"}}}, Run{Time: 10 * time.Second, Validator: "c"})
			if err != nil {
				t.Fatal(err)
			}
			version := 6
			switch {
			case p.Scoring: // its groups say which scores they take
				version = 13
			case tt.passes > 1:
				version = 9
			}
			if spec.Checker.Passes != tt.passes || spec.Limits.WallMS != tt.wallMS || spec.SpecVersion != version {
				t.Errorf("got %d passes of %d ms, version %d; want %d of %d, %d", spec.Checker.Passes, spec.Limits.WallMS, spec.SpecVersion, tt.passes, tt.wallMS, version)
			}
			if err := spec.Check([]string{"c"}, nil, job.DefaultMaximums); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestInteractive: what makes a problem interactive, in each version of the format.
func TestInteractive(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, yaml, dir string
		passes, version int
	}{
		{"2025-09", "problem_format_version: 2025-09\ntype: interactive", "output_validator/v.py", 0, 10},
		{"2025-09, with a list", "problem_format_version: 2025-09\ntype: [scoring, interactive]", "output_validator/v.py", 0, 13},
		{"2025-09, multi-pass", "problem_format_version: 2025-09\ntype: [interactive, multi-pass]", "output_validator/v.py", 2, 12},
		{"2023-07", "problem_format_version: 2023-07-draft\ntype: pass-fail interactive", "output_validators/v.py", 0, 10},
		{"2023-07, multi-pass", "problem_format_version: 2023-07-draft\ntype: interactive multi-pass", "output_validators/v.py", 2, 12},
		{"legacy", "validation: custom interactive", "output_validators/talk/v.py", 0, 10},
		{"legacy, multi-pass", "validation: custom interactive multi-pass", "output_validators/talk/v.py", 2, 12},
		{"legacy, with scores", "type: scoring\nvalidation: custom score interactive", "output_validators/v.py", 0, 13},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := Read(with("-- problem.yaml --\n"+tt.yaml+"\nlimits: {validation_output: 2}\n-- "+tt.dir+" --\n", "secret/1", "secret/2"))
			if err != nil {
				t.Fatal(err)
			}
			spec, err := p.Spec(Program{Runtime: "c", Files: []job.File{{Name: "a.c"}}}, Run{Time: time.Second, Validator: "c"})
			if err != nil {
				t.Fatal(err)
			}
			if c := spec.Checker; !p.Interactive || !c.Interactive || c.Passes != tt.passes || c.Program.Limits.OutputKB != 2048 || spec.Limits.OutputKB != 8192 || spec.SpecVersion != tt.version {
				t.Errorf("got %v, %+v, %+v, %+v, version %d", p.Interactive, c, c.Program, spec.Limits, spec.SpecVersion)
			}
			if err := spec.Check([]string{"c"}, nil, job.DefaultMaximums); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestValidatedGroups: with a validator of its own, a group need not say how much it gives. A score that the validator
// gives in sample counts nowhere.
func TestValidatedGroups(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"problem_format_version: 2025-09\ntype: scoring\n-- output_validator/v.py --\n-- data/secret/test_group.yaml --\nmax_score: unbounded\n-- data/secret/a/test_group.yaml --\nscore_aggregation: sum\n",
		"type: scoring\nvalidation: custom score\n-- output_validators/v.py --\n-- data/testdata.yaml --\ngrader_flags: ignore_sample\n",
	} {
		p, err := Read(with("-- problem.yaml --\n"+text, "sample/1", "secret/a/1", "secret/a/2"))
		if err != nil {
			t.Fatal(err)
		}
		j, err := p.Judgement()
		if err != nil {
			t.Fatal(err)
		}
		twelve := 12.0
		for i := range p.Tests {
			j.Set(i, job.Accepted, &twelve)
		}
		if got := j.Whole().Score; got != 24 {
			t.Errorf("got %v, want 24:\n%s", got, summary(p))
		}
	}
}
