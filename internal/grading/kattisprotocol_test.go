package grading

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

// said is a part of a report: a file of the feedback.
func said(name, text string) string { return fmt.Sprintf("%s %d\n%s", name, len(text), text) }

func TestRule(t *testing.T) {
	t.Parallel()
	number := func(x float64) *float64 { return &x }
	fails := func(fault string) Ruling { return Ruling{Verdict: job.JudgeError, Fault: fault} }
	tests := []struct {
		name, report string
		want         Ruling
	}{
		{"accepted", "exit 42\n", Ruling{Verdict: job.Accepted}},
		{"without a line's end", "exit 43", Ruling{Verdict: job.WrongAnswer}},
		{"messages", "exit 43\n" + said("judgemessage.txt", "9 9\nexit 42\n") + said("teammessage.txt", ""), Ruling{Verdict: job.WrongAnswer, Judge: "9 9\nexit 42\n"}},
		{"score", "exit 42\n" + said("score.txt", " 12.5\n"), Ruling{Verdict: job.Accepted, Score: number(12.5)}},
		{"multiplier", "exit 42\n" + said("score_multiplier.txt", "1e-1"), Ruling{Verdict: job.Accepted, Multiplier: number(0.1)}},
		{"a file that nobody asked for", "exit 42\n" + said("x", "y"), fails("the checker's feedback could not be read")},
		{"a file twice", "exit 42\n" + said("score.txt", "1") + said("score.txt", "2"), fails("the checker's feedback could not be read")},
		{"exit 0", "exit 0\n", fails("the checker exited with 0, which is neither 42 nor 43")},
		{"exit 1, with a message", "exit 1\n" + said("judgemessage.txt", "why"), Ruling{Verdict: job.JudgeError, Judge: "why", Fault: "the checker exited with 1, which is neither 42 nor 43"}},
		{"another pass", "exit 42\n" + said("nextpass.in", ""), fails("the checker asks for more passes (nextpass.in) than the problem has (checker.passes)")},
		{"another pass, of a wrong answer", "exit 43\n" + said("nextpass.in", ""), fails("the checker asks for another pass (nextpass.in) of an output that it rejects")},
		{"score of a wrong answer", "exit 43\n" + said("score.txt", "1"), fails("the checker gives a score (score.txt) to an output that it rejects")},
		{"two scores", "exit 42\n" + said("score.txt", "1") + said("score_multiplier.txt", "1"), fails("the checker gives score.txt and score_multiplier.txt; one of the two is wanted")},
		{"a link", "exit 42\nscore.txt -\n", fails(`the checker left a link, or what else is no file, as "score.txt" in its feedback directory`)},
		{"too short", "exit 42\nscore.txt 2\n1", fails("the checker's feedback could not be read")},
		{"too long", "exit 42\n" + said("judgemessage.txt", strings.Repeat("x", MaxFeedback+1)), fails("the checker's feedback could not be read")},
		{"a negative size", "exit 42\nscore.txt -1\n1", fails("the checker's feedback could not be read")},
	}
	for _, score := range []string{"", "x", "nan", "inf", "-1", "0x1p2", "1_0", "1,5", "1 2", "1e99", "\x00"} {
		tests = append(tests, struct {
			name, report string
			want         Ruling
		}{"score " + score, "exit 42\n" + said("score.txt", score), fails("the checker's score.txt is no number from 0 to 1e+09")})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(tt.want, Rule([]byte(tt.report), 0)); d != "" {
				t.Error(d)
			}
		})
	}
	for _, none := range []string{"", "\n", "exit\n", "exit 42 \n", "Exit 42\n", "exit forty-two\n", "exit 42x"} {
		if got := Rule([]byte(none), 0); got.Verdict != job.JudgeError || !strings.HasPrefix(got.Fault, "the checker was not run") {
			t.Errorf("%q: got %+v", none, got)
		}
	}
}

// TestRulePasses: when there is another pass, and what goes into it.
func TestRulePasses(t *testing.T) {
	t.Parallel()
	fails := func(fault string) Ruling { return Ruling{Verdict: job.JudgeError, Fault: fault} }
	next := "exit 42\n" + said("nextpass.in", "1\nexit 43\n") + said("state", "\x00tar")
	for _, tt := range []struct {
		name, report string
		more         int
		want         Ruling
	}{
		{"another pass", next, 1, Ruling{Verdict: job.Accepted, Next: &NextPass{[]byte("1\nexit 43\n"), []byte("\x00tar")}}},
		{"one too many", next, 0, fails("the checker asks for more passes (nextpass.in) than the problem has (checker.passes)")},
		{"an empty one", "exit 42\n" + said("nextpass.in", "") + said("state", ""), 1, Ruling{Verdict: job.Accepted, Next: &NextPass{[]byte{}, []byte{}}}},
		{"none", "exit 42\n" + said("judgemessage.txt", "x"), 1, Ruling{Verdict: job.Accepted, Judge: "x"}},
		{"after a wrong answer", "exit 43\n" + said("nextpass.in", "1"), 1, fails("the checker asks for another pass (nextpass.in) of an output that it rejects")},
		{"after a crash", "exit 1\n" + said("nextpass.in", "1"), 1, fails("the checker exited with 1, which is neither 42 nor 43")},
		{"a score that is not the last", "exit 42\n" + said("score.txt", "-") + said("nextpass.in", "") + said("state", ""), 1, Ruling{Verdict: job.Accepted, Next: &NextPass{[]byte{}, []byte{}}}},
		{"a link", "exit 42\nnextpass.in -\n", 1, fails(`the checker left a link, or what else is no file, as "nextpass.in" in its feedback directory`)},
		{"too long", "exit 42\nnextpass.in +\n", 1, fails(`the checker's "nextpass.in" has more than 8192 KiB`)},
		{"longer than is said", "exit 42\nnextpass.in 9000000\n" + strings.Repeat("x", 9_000_000), 1, fails("the checker's feedback could not be read")},
		{"without a state", "exit 42\n" + said("nextpass.in", "1"), 1, fails("the checker's feedback could not be read")},
		{"too large a state", "exit 42\n" + said("nextpass.in", "1") + "state +\n", 1, fails("the checker's feedback directory has more than 1024 KiB, which is too much to be kept for the next pass")},
		{"no state", "exit 42\n" + said("nextpass.in", "1") + "state -\n", 1, fails("the checker's feedback directory could not be kept for the next pass")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(tt.want, Rule([]byte(tt.report), tt.more)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestHeld: which scores a group takes, in the format's words of 2025-09, and what is the judge's fault otherwise.
func TestHeld(t *testing.T) {
	t.Parallel()
	score := func(x float64) Ruling { return Ruling{Verdict: job.Accepted, Score: &x} }
	share := func(x float64) Ruling { return Ruling{Verdict: job.Accepted, Multiplier: &x} }
	none, wrong := Ruling{Verdict: job.Accepted}, Ruling{Verdict: job.WrongAnswer}
	const third = 200.0 / 3
	for _, tt := range []struct {
		name, takes string
		ruling      Ruling
		fault       string // what the fault begins with; "" for none
	}{
		{"any", "", score(1e6), ""},
		{"none, none", "none", none, ""},
		{"none, a score", "none", score(0), "the checker gives a score, and the test's group is all or nothing"},
		{"none, a share", "none", share(1), "the checker gives a score, and the test's group is all or nothing"},
		{"within, none", "within", none, ""},
		{"within, a share", "within", share(1), ""},
		{"within, all", "within", score(third), ""},
		{"within, all in decimals", "within", score(66.666666667), ""},
		{"within, more", "within", score(66.67), "the checker gives a score above what the test gives at most, 66.6"},
		{"required, a score", "required", score(1e6), ""},
		{"required, 0", "required", score(0), ""},
		{"required, none", "required", none, "the checker accepts an output without a score (score.txt)"},
		{"required, a share", "required", share(1), "the checker gives a share, and there is no largest score"},
		{"required, rejected", "required", wrong, ""},
		{"required, another pass", "required", Ruling{Verdict: job.Accepted, Next: &NextPass{}}, ""},
	} {
		got := tt.ruling.Held(tt.takes, third)
		if tt.fault == "" {
			if d := cmp.Diff(tt.ruling, got); d != "" {
				t.Errorf("%s: %s", tt.name, d)
			}
			continue
		}
		if got.Verdict != job.JudgeError || got.Score != nil || got.Multiplier != nil || !strings.HasPrefix(got.Fault, tt.fault) {
			t.Errorf("%s: got %+v, want %q", tt.name, got, tt.fault)
		}
	}
}

// FuzzRule: whatever a sandbox reports, the verdict is one of three, a score is one that counts, and there are no more
// passes than may be.
func FuzzRule(f *testing.F) {
	f.Add([]byte("exit 42\n"+said("score.txt", "1")+said("judgemessage.txt", "x\ny")), 0)
	f.Add([]byte("exit 43\nteammessage.txt -\n"), 0)
	f.Add([]byte("exit 42\n"+said("nextpass.in", "1")+said("state", "tar")), 1)
	f.Fuzz(func(t *testing.T, report []byte, more int) {
		r := Rule(report, more)
		switch {
		case r.Next != nil && (r.Verdict != job.Accepted || more <= 0 || len(r.Next.Input) > job.MaxPassInput || len(r.Next.State) > job.MaxPassState):
			t.Errorf("got another pass of %+v, where %d may follow", r, more)
		case r.Verdict != job.Accepted && r.Verdict != job.WrongAnswer && r.Verdict != job.JudgeError:
			t.Errorf("got %+v", r)
		case (r.Verdict == job.JudgeError) != (r.Fault != ""):
			t.Errorf("got %+v: the judge's fault has a reason, and nothing else has", r)
		case r.Verdict == job.Accepted && !bytes.HasPrefix(report, []byte("exit ")):
			t.Errorf("%q is accepted", report)
		case r.Score != nil && !(*r.Score >= 0 && *r.Score <= job.MaxPoints), r.Multiplier != nil && !(*r.Multiplier >= 0 && *r.Multiplier <= 1):
			t.Errorf("got %+v", r)
		case r.Verdict != job.Accepted && (r.Score != nil || r.Multiplier != nil):
			t.Errorf("got %+v: a score for what is not accepted", r)
		}
	})
}
