package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/grading/kattis"
	"github.com/glovebox-run/glovebox/job"
)

// timeLimit is the one that was given, the package's, or one that follows from its submissions.
func (g *grader) timeLimit(ctx context.Context, given time.Duration) (time.Duration, error) {
	switch {
	case given > 0:
		return given, nil
	case g.problem.Limits.Time > 0:
		return g.problem.Limits.Time, nil
	}
	lower := g.attempts(g.problem.Bounds(), g.provisional())
	if len(lower) > 0 {
		fmt.Fprintf(g.stderr, "the problem has no time limit: it is derived from %d of its submissions\n", len(lower))
	}
	if err := g.judge(ctx, lower); err != nil {
		return 0, err
	}
	limit := g.derive(lower)
	return limit, g.checkBounds(lower, limit)
}

// checkBounds returns an error where the time limit doesn't follow from lower: one of them was not judged, or is not as expected, so how long
// it took says nothing. Those that no worker was asked to run are left out, which derive has said.
func (g *grader) checkBounds(lower []*attempt, limit time.Duration) error {
	var unexpected error
	for _, t := range lower {
		s := g.expected(t, limit)
		if s.away {
			return &failure{code: exitGlovebox, err: fmt.Errorf("the time limit can't be derived: %s was not judged: %s", t.name, cmp.Or(s.Error, words(s.Verdict)))}
		}
		if len(s.Problems) > 0 && unexpected == nil {
			unexpected = &failure{
				exitUsage, fmt.Errorf("the time limit can't be derived: %s is not as expected: %s", t.name, strings.Join(s.Problems, "; ")),
				`"glovebox problem check" shows all that are not; --time-limit gives a time limit`,
			}
		}
	}
	return unexpected
}

// provisional is the time limit under which submissions are measured: as much as jobs may have.
func (g *grader) provisional() time.Duration {
	const most = 30 * time.Second
	return min(most, g.problem.Room())
}

// derive derives the time limit, and says from what.
func (g *grader) derive(lower []*attempt) time.Duration {
	var slowest time.Duration
	from := ""
	for _, t := range lower {
		if s := gradedOf(t); s.Verdict == "" {
			fmt.Fprintf(g.stderr, "%s is left out of that: %s\n", t.name, plain(s.Error))
		}
		for _, e := range t.expect {
			if at, took := g.slowest(t, e); e.Lower && took >= slowest && at != "" {
				slowest, from = took, fmt.Sprintf("%s took %s on %s", t.name, milliseconds(took.Milliseconds()), at)
			}
		}
	}
	if from == "" {
		fmt.Fprintf(g.stderr, "no submission of the problem says what its time limit is: taking %s\n", defaultTimeLimit)
		return defaultTimeLimit
	}
	limit := g.problem.Limits.Timing.Limit(slowest)
	fmt.Fprintf(g.stderr, "time limit %s: %s\n", limit, from)
	return limit
}

// slowest is the test that took most CPU time, of those that an expectation is about; "" if none was run.
func (g *grader) slowest(t *attempt, e kattis.Expectation) (test string, took time.Duration) {
	if t.result == nil {
		return "", 0
	}
	for i, r := range t.result.Tests {
		if i >= len(g.problem.Tests) || r.Usage == nil || !e.About(g.problem.Tests[i]) {
			continue
		}
		cpu := time.Duration(r.Usage.CPUMS) * time.Millisecond
		if r.Verdict == job.TestTimedOut { // it was stopped, and would have taken longer
			cpu = max(cpu, t.run.Time)
		}
		if test == "" || cpu > took {
			test, took = r.Name, cpu
		}
	}
	return test, took
}
