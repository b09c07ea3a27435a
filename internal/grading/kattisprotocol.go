package grading

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
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

// FeedbackFiles are the files of a checker's feedback that are looked at.
var FeedbackFiles = []string{"judgemessage.txt", "teammessage.txt", "score.txt", "score_multiplier.txt", "nextpass.in"}

// Ruling is what a checker that is a program has decided on one output.
type Ruling struct {
	Verdict job.Verdict // accepted, wrong_answer or judge_error
	// Score is the test's; Multiplier is a part of what it gives at most. At most one is set.
	Score, Multiplier *float64
	// Judge is for those who made the problem, Team for the author of the submission.
	Judge, Team string
	// Fault says why the verdict is judge_error, without anything that the program wrote.
	Fault string
}

// Rule reads what a checker of kind kattis leaves, as its report has it: a line "exit CODE", then for each
// file of its feedback a line "NAME SIZE" and so many bytes, or "NAME -" for what is there and is no file. The
// report comes from a sandbox and may be anything.
func Rule(report []byte) Ruling {
	code, files, err := readReport(report)
	if err != nil {
		return Ruling{Verdict: job.JudgeError, Fault: err.Error()}
	}
	r := Ruling{Judge: files["judgemessage.txt"], Team: files["teammessage.txt"]}
	fail := func(format string, args ...any) Ruling {
		r.Verdict, r.Score, r.Multiplier, r.Fault = job.JudgeError, nil, nil, fmt.Sprintf(format, args...)
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
	if _, there := files["nextpass.in"]; there {
		return fail("the checker asks for another pass (nextpass.in), which is not supported")
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
		score, ok := parseScore(text, s.most)
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

func readReport(report []byte) (code int, files map[string]string, err error) {
	code, rest, err := readExit(report)
	if err != nil {
		return 0, nil, err
	}
	files = map[string]string{}
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		name, size, _ := strings.Cut(string(line), " ")
		if _, again := files[name]; again || !slices.Contains(FeedbackFiles, name) { // a program wrote this, not the script
			return code, nil, fmt.Errorf("the checker's feedback could not be read")
		}
		if size == "-" {
			return code, nil, fmt.Errorf("the checker left a link, or what else is no file, as %.64q in its feedback directory", name)
		}
		n, err := strconv.Atoi(size)
		if err != nil || n < 0 || n > len(rest) || n > MaxFeedback {
			return code, nil, fmt.Errorf("the checker's feedback could not be read")
		}
		files[name], rest = string(rest[:n]), rest[n:]
	}
	return code, files, nil
}
