package grading

import (
	"github.com/glovebox-run/glovebox/job"
)

// MaxDialogFeedback bounds each file of an interactor's feedback, bytes: its report comes on stderr, as its stdout is what the
// program reads.
const MaxDialogFeedback = 12 << 10

// DialogStderr is the beginning of what an interactor said on stderr, as its report has it.
func DialogStderr(report []byte) string {
	_, files, err := readReport(report)
	if err != nil {
		return ""
	}
	return string(files[saidOnStderr])
}

// RuleDialog decides on a test in which a program and an interactor talked. program is the verdict that the program's end
// alone leads to, "" if it ended well; interactor is what the interactor came to, and first says that it ended without
// having seen the program's end.
//
// What the interactor did first counts, whatever became of the program then: it talks to nobody. An interactor that accepts
// lets the program go on to its own end. One that ends after the program has only the word on a program that ended well; but
// if it never ends by itself, the program may have waited for it in vain.
func RuleDialog(program job.Verdict, interactor Ruling, first bool) Ruling {
	switch {
	case program == "",
		first && interactor.Verdict != job.Accepted,
		interactor.Overdue && program == job.TestTimedOut:
		return interactor
	}
	return Ruling{Verdict: program}
}
