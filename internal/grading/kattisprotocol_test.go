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
		{"another pass", "exit 42\n" + said("nextpass.in", ""), fails("the checker asks for another pass (nextpass.in), which is not supported")},
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
			if d := cmp.Diff(tt.want, Rule([]byte(tt.report))); d != "" {
				t.Error(d)
			}
		})
	}
	for _, none := range []string{"", "\n", "exit\n", "exit 42 \n", "Exit 42\n", "exit forty-two\n", "exit 42x"} {
		if got := Rule([]byte(none)); got.Verdict != job.JudgeError || !strings.HasPrefix(got.Fault, "the checker was not run") {
			t.Errorf("%q: got %+v", none, got)
		}
	}
}

// FuzzRule: whatever a sandbox reports, the verdict is one of three, and a score is one that counts.
func FuzzRule(f *testing.F) {
	f.Add([]byte("exit 42\n" + said("score.txt", "1") + said("judgemessage.txt", "x\ny")))
	f.Add([]byte("exit 43\nteammessage.txt -\n"))
	f.Fuzz(func(t *testing.T, report []byte) {
		r := Rule(report)
		switch {
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
