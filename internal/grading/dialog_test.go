package grading

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

// TestRuleDialog: who ended first counts, then the program's own end, then the interactor's word.
func TestRuleDialog(t *testing.T) {
	t.Parallel()
	two := 2.0
	right := Ruling{Verdict: job.Accepted, Score: &two, Team: "well"}
	wrong := Ruling{Verdict: job.WrongAnswer, Judge: "why"}
	broken := Ruling{Verdict: job.JudgeError, Fault: "why"}
	overdue := Ruling{Verdict: job.JudgeError, Fault: "why", Overdue: true}
	for _, tt := range []struct {
		name       string
		program    job.Verdict
		interactor Ruling
		first      bool
		want       Ruling
	}{
		{"both ended well", "", right, false, right},
		{"the program ended early", "", wrong, false, wrong},
		{"rejected, and the program ended well", "", wrong, true, wrong},
		{"an interactor that failed", "", broken, false, broken},
		{"rejected, and the program crashed", job.RunTimeError, wrong, true, wrong},
		{"rejected, and the program hung", job.TestTimedOut, wrong, true, wrong},
		{"failed, and the program crashed", job.RunTimeError, broken, true, broken},
		{"accepted, and the program crashed", job.RunTimeError, right, true, Ruling{Verdict: job.RunTimeError}},
		{"accepted, and the program hung", job.TestTimedOut, right, true, Ruling{Verdict: job.TestTimedOut}},
		{"crashed, and was rejected for it", job.RunTimeError, wrong, false, Ruling{Verdict: job.RunTimeError}},
		{"crashed, and the interactor failed on it", job.RunTimeError, broken, false, Ruling{Verdict: job.RunTimeError}},
		{"hung, and was accepted", job.TestTimedOut, right, false, Ruling{Verdict: job.TestTimedOut}},
		{"hung, and the interactor failed at its end", job.TestTimedOut, broken, false, Ruling{Verdict: job.TestTimedOut}},
		{"hung, and the interactor never ended", job.TestTimedOut, overdue, false, overdue},
		{"crashed, and the interactor never ended", job.RunTimeError, overdue, false, Ruling{Verdict: job.RunTimeError}},
		{"printed too much", job.OutputLimit, wrong, false, Ruling{Verdict: job.OutputLimit}},
		{"had no memory", job.TestOutOfMemory, wrong, false, Ruling{Verdict: job.TestOutOfMemory}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(tt.want, RuleDialog(tt.program, tt.interactor, tt.first)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestDialogStderr: what an interactor said is a part of its report, and no part of the ruling.
func TestDialogStderr(t *testing.T) {
	t.Parallel()
	report := "exit 43\n" + said("stderr", "exit 42\n") + said("judgemessage.txt", "no")
	if got := DialogStderr([]byte(report)); got != "exit 42\n" {
		t.Errorf("got %q", got)
	}
	if d := cmp.Diff(Ruling{Verdict: job.WrongAnswer, Judge: "no"}, Rule([]byte(report), 0)); d != "" {
		t.Error(d)
	}
	for _, none := range []string{"", "exit 43\n", "exit 43\nstderr 9\nx", "exit 43\nstderr -\n"} {
		if got := DialogStderr([]byte(none)); got != "" {
			t.Errorf("%q: got %q", none, got)
		}
	}
}
