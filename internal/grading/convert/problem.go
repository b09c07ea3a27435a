package convert

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// problem is what a package is written from.
type problem struct {
	*source
	from      string
	name      string
	timeLimit time.Duration // 0: it has none
	memoryMB  int64         // 0: it has none
	outputMB  int64         // 0: the format's default
	samples   []test
	groups    []group
	scoring   bool
	// interactive: the validator talks to submissions.
	interactive bool
	// checker is of the default output validator: its arguments. With a validator they are that one's.
	checker   []string
	validator map[string]data // files by name; none: the default one
	includes  map[string]data // files below include/, by path
	// programs are those below submissions/, by path, and what is expected of those in folders that the format has not.
	programs  map[string]data
	permitted map[string][]string
	warnings  []string
	archives  []io.Closer
}

// group is one of data/secret. Where the problem has no points, they are not told apart.
type group struct {
	name     string // the original's, "" for none
	points   float64
	how      string   // "pass-fail", "sum" or "min"
	requires []int    // groups before it
	checker  []string // arguments for its tests; nil: those of the problem
	tests    []test
}

type test struct {
	input, answer data
	checker       []string // arguments of its own; nil: those of the problem
}

func (p *problem) warnf(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

// close closes the archives that the problem's data are in.
func (p *problem) close() {
	for _, a := range p.archives {
		_ = a.Close() // it was only read
	}
}

func (p *problem) total() float64 {
	sum := 0.0
	for _, g := range p.groups {
		sum += g.points
	}
	return sum
}

// settle decides what the package is, and checks what is in it.
func (p *problem) settle() error {
	tests := len(p.samples)
	for _, g := range p.groups {
		tests += len(g.tests)
	}
	if tests == 0 || len(p.groups) == 0 {
		return faultf(p.described(), "", "has no tests")
	}
	if tests > job.MaxTests {
		return faultf(p.described(), "", "has %d tests; up to %d are graded", tests, job.MaxTests)
	}
	p.scoring = p.total() > 0
	if p.total() > job.MaxPoints {
		return faultf(p.described(), "points", "come to %g; up to %g are given", p.total(), float64(job.MaxPoints))
	}
	if p.scoring {
		p.warnOfRequired()
	}
	if p.timeLimit == 0 {
		p.warnf("the problem has no time limit: give one with --time-limit, or it is derived from submissions/accepted/")
	}
	if p.memoryMB == 0 {
		p.warnf("the problem has no memory limit: give one with --memory-mb, or it is the format's 2048 MiB")
	}
	return nil
}

// warnOfRequired warns of groups that others require, and that may give a part of their points: other judges may refuse the package.
func (p *problem) warnOfRequired() {
	names := p.folders()
	for i, g := range p.groups {
		if g.how != "pass-fail" && slices.ContainsFunc(p.groups, func(other group) bool { return slices.Contains(other.requires, i) }) {
			p.warnf("data/secret/%s is required by other groups (require_pass), and has score_aggregation: %s: the format wants pass-fail for that. Here the group is passed if all of its tests are accepted", names[i], g.how)
		}
	}
}

// described is the file that says what the problem is.
func (p *problem) described() string {
	if p.from == fromDMOJ {
		return dmojFile
	}
	return polygonFile
}

func (p *problem) report() Report {
	r := Report{From: p.from, Tests: len(p.samples), Submissions: len(p.programs), Warnings: p.warnings}
	for _, g := range p.groups {
		r.Tests += len(g.tests)
	}
	if p.scoring {
		r.Groups = len(p.groups)
	}
	return r
}

// numbered names n things, so that the order of their names is theirs: "1" to "9", "01" to "10".
func numbered(i, n int) string {
	return fmt.Sprintf("%0*d", len(strconv.Itoa(n)), i+1)
}

// folders names the groups. Names that are numbers in order stay as they are; others come after a number.
func (p *problem) folders() []string {
	last, ordered := -1, true
	for _, g := range p.groups {
		n, err := strconv.Atoi(g.name)
		ordered = ordered && err == nil && n > last && n < 1e6
		last = n
	}
	names := make([]string, len(p.groups))
	for i, g := range p.groups {
		switch word := plain(g.name); {
		case ordered:
			names[i] = fmt.Sprintf("%0*d", len(strconv.Itoa(last)), atoi(g.name))
		case word != "":
			names[i] = numbered(i, len(p.groups)) + "-" + word
		default:
			names[i] = numbered(i, len(p.groups))
		}
	}
	return names
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s) // it has been looked at
	return n
}

// plain is as much of a name as a folder of the format may have.
func plain(name string) string {
	const most = 40
	var word []byte
	for _, c := range []byte(name) {
		if slices.Contains([]byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"), c) && len(word) < most {
			word = append(word, c)
		}
	}
	return string(word)
}
