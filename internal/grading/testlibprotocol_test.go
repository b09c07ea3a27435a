package grading

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

// TestRuleTestlib: testlib.h's exit codes, with the messages that it prints beside them.
func TestRuleTestlib(t *testing.T) {
	t.Parallel()
	accepted := func(score, multiplier float64) Ruling {
		r := Ruling{Verdict: job.Accepted}
		if score > 0 {
			r.Score = &score
		}
		if multiplier > 0 {
			r.Multiplier = &multiplier
		}
		return r
	}
	wrong := Ruling{Verdict: job.WrongAnswer}
	fails := func(fault string) Ruling { return Ruling{Verdict: job.JudgeError, Fault: fault} }
	const noPoints = "the checker exited with 7, and its message does not begin with points and a number from 0 to 1e+09"
	unknown := func(code int) Ruling {
		return fails(fmt.Sprintf("the checker exited with %d, which is no exit code of testlib.h", code))
	}
	noBase := func(code int) Ruling {
		return fails(fmt.Sprintf("the checker's message is partially correct (…, and it exited with %d, which is no code for that: define TESTSYS before testlib.h is included, or use quitp", code))
	}
	for _, tt := range []struct {
		name    string
		code    int
		message string
		want    Ruling
	}{
		{"ok", 0, "ok 3 numbers\n", accepted(0, 0)},
		{"ok, without a word", 0, "", accepted(0, 0)},
		{"wrong", 1, "wrong answer expected '9', found '8'\n", wrong},
		{"presentation error", 2, "wrong output format Unexpected end of file\n", wrong},
		{"fail", 3, "FAIL the answer is not optimal\n", fails("the checker says that it failed (exit code 3)")},
		{"dirt", 4, "wrong output format Extra information in the output file\n", wrong},
		{"5", 5, "", unknown(5)},
		{"6", 6, "", unknown(6)},
		{"unexpected eof", 8, "unexpected eof Unexpected end of file - token expected\n", wrong},
		{"9", 9, "", unknown(9)},

		{"points", 7, "points 12.50 d=1\n", accepted(12.5, 0)},
		{"whole points", 7, "points 3\n", accepted(3, 0)},
		{"points without a line's end", 7, "points 3", accepted(3, 0)},
		{"no points", 7, "points 0.0 nothing right\n", wrong},
		{"the most points", 7, "points 1000000000\n", accepted(1e9, 0)},
		{"too many points", 7, "points 1000000001\n", fails(noPoints)},
		{"points below 0", 7, "points -1.0\n", fails(noPoints)},
		{"infinite points", 7, "points inf0\n", fails(noPoints)},
		{"points that are no number", 7, "points nan0\n", fails(noPoints)},
		{"points_info", 7, "points points_info=pa=1,ja=2 d=1\n", fails(noPoints)},
		{"points without a message", 7, "", fails(noPoints)},
		{"points somewhere", 7, "wrong answer\npoints 5\n", fails(noPoints)},
		{"points and ok", 0, "points 5\n", accepted(0, 0)},

		{"a share", 150, "partially correct (100) result=9\n", accepted(0, 0.5)},
		{"all", 250, "partially correct (200) \n", accepted(0, 1)},
		{"nothing", 50, "partially correct (0) \n", wrong},
		{"more than all", 251, "partially correct (201) \n", unknown(251)},
		{"a share that the message doesn't say", 150, "ok\n", unknown(150)},
		{"another share", 150, "partially correct (101) \n", unknown(150)},
		{"a share that begins so", 51, "partially correct (10) \n", unknown(51)},
		{"killed", 137, "", unknown(137)},
		{"a crash after a message", 139, "ok \n", unknown(139)},
		{"not found", 127, "bash: line 1: x: command not found\n", unknown(127)},
		{"nothing, without TESTSYS", 0, "partially correct (0) \n", noBase(0)},
		{"a share, without TESTSYS", 13, "partially correct (13) result=100\n", noBase(13)},
		{"below 0", -1, "", unknown(-1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.want.Judge = tt.message
			if d := cmp.Diff(tt.want, RuleTestlib(fmt.Appendf(nil, "exit %d\n", tt.code), tt.message)); d != "" {
				t.Error(d)
			}
		})
	}
	for _, none := range []string{"", "exit\n", "exit x\n", "Exit 0\n", "0\n"} {
		if got := RuleTestlib([]byte(none), "ok"); got.Verdict != job.JudgeError || !strings.HasPrefix(got.Fault, "the checker was not run") {
			t.Errorf("%q: got %+v", none, got)
		}
	}
}

// FuzzRuleTestlib: whatever a sandbox reports, nothing is accepted but what exit code and message give together.
func FuzzRuleTestlib(f *testing.F) {
	f.Add([]byte("exit 0\n"), "ok")
	f.Add([]byte("exit 7\n"), "points 1.50 x")
	f.Add([]byte("exit 99\nscore.txt 1\n1"), "partially correct (49) ")
	f.Fuzz(func(t *testing.T, report []byte, message string) {
		r := RuleTestlib(report, message)
		code, _, err := readExit(report)
		switch {
		case r.Judge != message:
			t.Errorf("got the message %q, want %q", r.Judge, message)
		case (r.Verdict == job.JudgeError) != (r.Fault != ""):
			t.Errorf("got %+v: the judge's fault has a reason, and nothing else has", r)
		case err != nil && r.Verdict != job.JudgeError:
			t.Errorf("%q: got %+v", report, r)
		case r.Verdict != job.Accepted && (r.Score != nil || r.Multiplier != nil):
			t.Errorf("got %+v: a score for what is not accepted", r)
		case r.Score != nil && (code != 7 || !(*r.Score > 0 && *r.Score <= job.MaxPoints)):
			t.Errorf("exit code %d: got a score of %g", code, *r.Score)
		case r.Multiplier != nil && (*r.Multiplier != float64(code-50)/200 || !strings.HasPrefix(message, "partially correct (")):
			t.Errorf("exit code %d, %q: got a share of %g", code, message, *r.Multiplier)
		case r.Verdict == job.Accepted && r.Score == nil && r.Multiplier == nil && code != 0:
			t.Errorf("exit code %d is accepted", code)
		case r.Verdict == job.WrongAnswer && code != 1 && code != 2 && code != 4 && code != 8 && code != 7 && code != 50:
			t.Errorf("exit code %d is wrong", code)
		}
	})
}
