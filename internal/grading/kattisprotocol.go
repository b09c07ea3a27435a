package grading

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// What a checker of kind kattis exits with.
const (
	exitAccepted = 42
	exitWrong    = 43
)

// MaxFeedback bounds each file of a checker's feedback, bytes; what is longer is cut.
const MaxFeedback = 64 << 10

// nextInput is the file of a checker's feedback that asks for another pass, and passState what a report has beside it: the
// feedback directory without it, as a tar archive.
const (
	nextInput = "nextpass.in"
	passState = "state"
)

// saidOnStderr is the part of an interactor's report that has the beginning of what it said on stderr.
const saidOnStderr = "stderr"

// feedbackFiles are the parts of a report, and how long each may be.
var feedbackFiles = map[string]int{
	saidOnStderr:       job.ShownOutput,
	"judgemessage.txt": MaxFeedback, "teammessage.txt": MaxFeedback, "score.txt": MaxFeedback, "score_multiplier.txt": MaxFeedback,
	nextInput: job.MaxPassInput, passState: job.MaxPassState,
}

// Ruling is what a checker that is a program has decided on one output.
type Ruling struct {
	Verdict job.Verdict // accepted, wrong_answer or judge_error
	// Score is the test's; Multiplier is a part of what it gives at most. At most one is set.
	Score, Multiplier *float64
	// Judge is for those who made the problem, Team for the author of the submission.
	Judge, Team string
	// Fault says why the verdict is judge_error, without anything that the program wrote.
	Fault string
	// Overdue: it was ended, as it had used up its time.
	Overdue bool
	// Next is set where the checker accepts a pass and asks for another one: Verdict is that of the test only if there
	// is none.
	Next *NextPass
}

// NextPass is what the program reads in its next pass, and what the checker finds in its feedback directory then: a tar
// archive that a sandbox made, and that is only for another one. Both are parts of the report.
type NextPass struct{ Input, State []byte }

// Rule reads what a checker of kind kattis leaves, as its report has it: a line "exit CODE", then for each
// file of its feedback a line "NAME SIZE" and so many bytes, "NAME -" for what is there and is no file, or "NAME +"
// for what is too long to be passed on. The report comes from a sandbox and may be anything. more is how many passes may follow.
func Rule(report []byte, more int) Ruling {
	code, files, err := readReport(report)
	if err != nil {
		return Ruling{Verdict: job.JudgeError, Fault: err.Error()}
	}
	r := Ruling{Judge: string(files["judgemessage.txt"]), Team: string(files["teammessage.txt"])}
	fail := func(format string, args ...any) Ruling {
		r.Verdict, r.Score, r.Multiplier, r.Next, r.Fault = job.JudgeError, nil, nil, nil, fmt.Sprintf(format, args...)
		return r
	}
	switch code {
	case exitAccepted:
		r.Verdict = job.Accepted
	case exitWrong:
		r.Verdict = job.WrongAnswer
	default:
		return fail("the checker exited with %d, which is neither 42 nor 43", code)
	}
	if input, there := files[nextInput]; there {
		state, kept := files[passState]
		switch {
		case code != exitAccepted:
			return fail("the checker asks for another pass (%s) of an output that it rejects", nextInput)
		case more <= 0:
			return fail("the checker asks for more passes (%s) than the problem has (checker.passes)", nextInput)
		case !kept:
			return fail("the checker's feedback could not be read")
		}
		r.Next = &NextPass{input, state}
		return r // a score counts in the last pass
	}
	for _, s := range []struct {
		file string
		most float64
		into **float64
	}{{"score.txt", job.MaxPoints, &r.Score}, {"score_multiplier.txt", 1, &r.Multiplier}} {
		text, there := files[s.file]
		if !there {
			continue
		}
		if r.Verdict != job.Accepted {
			return fail("the checker gives a score (%s) to an output that it rejects", s.file)
		}
		score, ok := parseScore(string(text), s.most)
		if !ok {
			return fail("the checker's %s is no number from 0 to %g", s.file, s.most)
		}
		*s.into = &score
	}
	if r.Score != nil && r.Multiplier != nil {
		return fail("the checker gives score.txt and score_multiplier.txt; one of the two is wanted")
	}
	return r
}

// Held is the ruling where a group takes scores as [job.Group.CheckerScore] says. most is what the test gives at most.
func (r Ruling) Held(takes string, most float64) Ruling {
	if r.Verdict != job.Accepted || r.Next != nil {
		return r
	}
	fault := ""
	switch takes {
	case "none":
		if r.Score != nil || r.Multiplier != nil {
			fault = "the checker gives a score, and the test's group is all or nothing"
		}
	case "within": // as many digits as scores have when they are added up
		if r.Score != nil && rounded(*r.Score) > rounded(most) {
			fault = fmt.Sprintf("the checker gives a score above what the test gives at most, %g", most)
		}
	case "required":
		switch {
		case r.Multiplier != nil:
			fault = "the checker gives a share, and there is no largest score to take it of"
		case r.Score == nil:
			fault = "the checker accepts an output without a score (score.txt), and the test's group gives none by itself"
		}
	}
	if fault != "" {
		r.Verdict, r.Score, r.Multiplier, r.Fault = job.JudgeError, nil, nil, fault+" (checker_score)"
	}
	return r
}

// parseScore takes decimals only: ParseFloat has inf, nan, hexadecimal and underscores, too.
func parseScore(text string, most float64) (float64, bool) {
	text = strings.Trim(text, " \t\r\n\v\f")
	if len(text) > 64 || strings.Trim(text, "+0123456789.eE-") != "" {
		return 0, false
	}
	score, err := strconv.ParseFloat(text, 64)
	return score, err == nil && score >= 0 && score <= most
}

// readExit reads the first line of a report.
func readExit(report []byte) (code int, rest []byte, err error) {
	line, rest, _ := bytes.Cut(report, []byte("\n"))
	word, number, _ := strings.Cut(string(line), " ")
	if code, err = strconv.Atoi(number); word != "exit" || err != nil {
		return 0, nil, errors.New("the checker was not run: there may be no room for input, answer and output (checker.program.limits.memory_mb, disk_mb)")
	}
	return code, rest, nil
}

func readReport(report []byte) (code int, files map[string][]byte, err error) {
	code, rest, err := readExit(report)
	if err != nil {
		return 0, nil, err
	}
	files = map[string][]byte{}
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		name, size, _ := strings.Cut(string(line), " ")
		most, known := feedbackFiles[name]
		if _, again := files[name]; again || !known { // a program wrote this, not the script
			return code, nil, fmt.Errorf("the checker's feedback could not be read")
		}
		switch {
		case size == "-" && name == passState:
			return code, nil, fmt.Errorf("the checker's feedback directory could not be kept for the next pass")
		case size == "-":
			return code, nil, fmt.Errorf("the checker left a link, or what else is no file, as %.64q in its feedback directory", name)
		case size == "+" && name == passState:
			return code, nil, fmt.Errorf("the checker's feedback directory has more than %d KiB, which is too much to be kept for the next pass", most>>10)
		case size == "+":
			return code, nil, fmt.Errorf("the checker's %.64q has more than %d KiB", name, most>>10)
		}
		n, err := strconv.Atoi(size)
		if err != nil || n < 0 || n > len(rest) || n > most {
			return code, nil, fmt.Errorf("the checker's feedback could not be read")
		}
		files[name], rest = rest[:n], rest[n:]
	}
	return code, files, nil
}
