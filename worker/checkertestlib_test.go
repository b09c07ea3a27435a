package worker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// divisorChecker follows testlib's conventions: it wants the largest divisor, and gives points for a smaller one.
var divisorChecker = job.CheckerProgram{
	Runtime: "cpp", Entrypoint: "check.cpp", Limits: job.Limits{WallMS: 20_000, MemoryMB: 128},
	Files: []job.File{
		{Name: "quit.h", Content: `#include <cstdlib>
#include <iostream>
#include <string>
[[noreturn]] inline void quit(int code, const std::string &message) { std::cerr << message << std::endl; std::exit(code); }
`},
		{Name: "check.cpp", Content: `#include "quit.h"
#include <fstream>
int main(int argc, char **argv) {
	std::ifstream in(argv[1]), out(argv[2]), ans(argv[3]);
	long n, best, got;
	std::string rest;
	if (!(in >> n) || !(ans >> best) || best < 1 || n % best) quit(3, "FAIL the answer does not divide the input");
	if ((out >> std::ws).eof()) quit(8, "unexpected eof a number is wanted");
	if (!(out >> got)) quit(2, "wrong output format a number is wanted");
	if (out >> rest) quit(4, "wrong output format Extra information in the output file");
	if (got < 1 || n % got) quit(1, "wrong answer " + std::to_string(got) + " does not divide " + std::to_string(n));
	if (got > best) quit(3, "FAIL the submission found a larger one");
	if (got == best) quit(0, "ok the largest");
	if (argc == 5 && std::string(argv[4]) == "shares") quit(50 + 200 * got / best, "partially correct (" + std::to_string(200 * got / best) + ") a smaller one");
	quit(7, "points " + std::to_string(10.0 * got / best) + " a smaller one");
}
`},
	},
}

// TestTestlibChecker: what a checker in C++ says by its exit code and on stderr, and what that comes to.
func TestTestlibChecker(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	ten := 10.0
	test := func(prints string, change func(*job.Test)) job.Test {
		test := job.Test{Name: prints, Stdin: "12\n", Answer: "6\n", Args: []string{prints}, Points: &ten}
		if change != nil {
			change(&test)
		}
		return test
	}
	spec := judgedBy("", "",
		test("6", nil), test("5", nil), test("x", nil), test("6 6", func(t *job.Test) { t.Name = "twice" }), test("", func(t *job.Test) { t.Name = "nothing" }),
		test("2", nil), test("3", func(t *job.Test) { t.CheckerArgs = []string{"shares"} }),
		test("1", func(t *job.Test) { t.Hidden, t.Hint = true, "larger" }),
	)
	spec.Source, spec.Checker = `echo $1`, &job.Checker{Kind: job.CheckTestlib, Program: &divisorChecker}
	r := g.result(g.submit(spec))
	if got, want := cameTo(r), "WA 20: AC WA WA WA WA AC AC AC"; got != want {
		t.Fatalf("got %s, want %s; %+v", got, want, r.Error)
	}
	for i, want := range []struct {
		score   float64
		message string
	}{
		{10, "ok the largest\n"},
		{0, "wrong answer 5 does not divide 12\n"},
		{0, "wrong output format a number is wanted\n"},
		{0, "wrong output format Extra information in the output file\n"},
		{0, "unexpected eof a number is wanted\n"},
		{3.333333, "points 3.333333 a smaller one\n"},
		{5, "partially correct (100) a smaller one\n"},
		{1.666667, ""},
	} {
		if test := r.Tests[i]; test.Score != want.score || test.JudgeMessage != want.message || test.Feedback != "" {
			t.Errorf("test %s: got %+v, want %+v", test.Name, test, want)
		}
	}
	spec.Tests = []job.Test{test("6", nil), test("12", nil)}
	if r := g.result(g.submit(spec)); cameTo(r) != "JE: AC JE" || r.Error == nil || r.Error.Code != job.CodeJudgeError || !strings.Contains(r.Error.Message, "says that it failed") ||
		strings.Contains(r.Error.Message, "larger") || r.Tests[1].JudgeMessage != "FAIL the submission found a larger one\n" {
		t.Errorf("a checker that fails: got %s, %+v, %+v", cameTo(r), r.Error, r.Tests)
	}
}

// TestTestlibCheckers: checkers that crash, flood or hang are never held against the submission as a wrong answer,
// and none of it is worth points.
func TestTestlibCheckers(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	hangs := []struct{ name, want, source string }{
		{"never ends after its word", "judge_error 0", "echo ok >&2; while :; do :; done"},
	}
	others := []struct{ name, want, source string }{
		{"is killed", "judge_error 0", "echo ok >&2; kill -9 $$"},
		{"aborts with the code of a share", "judge_error 0", "kill -ABRT $$"},
		{"crashes after its message", "judge_error 0", "echo 'partially correct (200) all' >&2; kill -SEGV $$"},
		{"ends by SIGTERM", "judge_error 0", "kill $$"},
		{"is none", "judge_error 0", "exec /no/such/program"},
		{"exits as a Kattis one does", "judge_error 0", "exit 42"},
		{"has points, and 100 MB to say", "accepted 0.25", "{ echo -n 'points 0.25 '; head -c 100000000 /dev/zero; } >&2; exit 7"},
		{"says its points late", "judge_error 0", "{ echo; echo points 1; } >&2; exit 7"},
		{"says nothing, and gives points", "judge_error 0", "exit 7"},
		{"closes what it has", "judge_error 0", "exec >&- 2>&- <&-; exit 7"},
		{"leaves a process that has its stderr", "accepted 1", "sleep 1000 & echo ok >&2; exit 0"},
		{"prints a report", "wrong_answer 0", "echo 'exit 0'; exit 1"},
		{"leaves links", "accepted 1", "cd /tmp/.glovebox; ln -s /etc/passwd feedback/score.txt; rm output; ln -s answer output; exit 0"},
		{"has the input, the output and the answer", "accepted 1", `[ "$(cat "$1")-$(cat "$2")-$(cat "$3")-$#" = in-in-out-5 ]`},
	}
	for _, kind := range []struct {
		cases  []struct{ name, want, source string }
		wallMS int64
		fault  string
	}{{hangs, 2000, "not done in 2000 ms"}, {others, 20_000, "exited with 137"}} {
		spec := judgedBy("bash", `eval "$5"`)
		spec.Checker.Kind, spec.Checker.Args, spec.Checker.Program.Limits.WallMS = job.CheckTestlib, []string{"more"}, kind.wallMS
		for _, c := range kind.cases {
			spec.Tests = append(spec.Tests, job.Test{Name: c.name, Stdin: "in", Answer: "out", CheckerArgs: []string{c.source}})
		}
		r := g.result(g.submit(spec))
		if r.Status != job.Failed || r.Score != nil || r.Attempt != 1 || r.Error == nil || r.Error.Code != job.CodeJudgeError || !strings.Contains(r.Error.Message, kind.fault) {
			t.Errorf("got %s in attempt %d, %+v; want an error with %q", r.Status, r.Attempt, r.Error, kind.fault)
		}
		for i, test := range r.Tests {
			if got, c := fmt.Sprintf("%s %g", test.Verdict, test.Score), kind.cases[i]; got != c.want || len(test.JudgeMessage) > job.ShownOutput {
				t.Errorf("%s: got %s and a message of %d bytes, want %s", c.name, got, len(test.JudgeMessage), c.want)
			}
		}
	}
}
