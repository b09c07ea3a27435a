package kattis

import (
	"fmt"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// TestRoom: with however many tests, a job has room for its checks, where the time limit is what a problem without one is measured by, or less.
func TestRoom(t *testing.T) {
	t.Parallel()
	const newer = "-- problem.yaml --\nproblem_format_version: 2025-09\n"
	const validator = "-- output_validator/v.py --\n"
	for name, text := range map[string]string{
		"no validator":             newer,
		"a validator":              newer + validator,
		"a quick validator":        newer + "limits: {validation_time: 1}\n" + validator,
		"a validator of no hurry":  newer + "limits: {validation_time: 300}\n" + validator,
		"an interactor":            newer + "type: interactive\n" + validator,
		"an interactor of passes":  newer + "type: [interactive, multi-pass]\n" + validator,
		"a validator of passes":    newer + "type: multi-pass\n" + validator,
		"a validator, many passes": newer + "type: multi-pass\nlimits: {validation_passes: 4}\n" + validator,
	} {
		p, err := Read(with(text, "secret/1"))
		if err != nil {
			t.Fatal(name, err)
		}
		for n := 1; n <= 500; n++ {
			test := p.Tests[0]
			if test.Name = fmt.Sprintf("secret/%d", n); n > 1 {
				p.Tests = append(p.Tests, test)
			}
			if n > 100 && n%50 > 0 {
				continue
			}
			most := min(30*time.Second, p.Room())
			for _, limit := range []time.Duration{most, most / 2, most / 4, 100 * time.Millisecond} {
				spec, err := p.Spec(Program{Runtime: "c", Files: []job.File{{Name: "a.c"}}}, Run{Time: limit, Validator: "c"})
				if err != nil {
					t.Fatal(name, err)
				}
				if err := spec.Check([]string{"c"}, nil, job.DefaultMaximums); err != nil {
					t.Fatalf("%s, %d tests of %s: got %v", name, n, limit, err)
				}
			}
		}
	}
}

func TestTiming(t *testing.T) {
	t.Parallel()
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	tests := []struct {
		timing        Timing
		slowest, want int
	}{
		{timingOf(Legacy), 10, 1000},
		{timingOf(Legacy), 200, 1000},
		{timingOf(Legacy), 201, 2000},
		{timingOf(V2025), 500, 1000},
		{timingOf(V2025), 501, 2000},
		{Timing{2, 1.5, 0.25}, 300, 750},
		{Timing{2, 1.5, 0.1}, 150, 300},
	}
	for _, tt := range tests {
		if got := tt.timing.Limit(ms(tt.slowest)); got != ms(tt.want) {
			t.Errorf("%+v, slowest %d ms: got %s, want %d ms", tt.timing, tt.slowest, got, tt.want)
		}
	}
	if err := timingOf(V2025).CheckTLE(ms(1000), ms(1500)); err != nil {
		t.Error(err)
	}
	if err := timingOf(V2025).CheckTLE(ms(1000), ms(1499)); err == nil {
		t.Error("1.499 s are too slow for a limit of 1 s times 1.5")
	}
}
