package podman_test

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:embed testdata/cells.txt
var cells string

// written is what a program came to, in a session or in a job.
type written struct {
	Stdout, Stderr string
	ExitCode       int
	Names          []string // of its files
}

// lastWords are programs of whose stderr nothing is compared: Python's own words as it gives up are not a session's.
var lastWords = []string{"an error after stderr is closed", "exit of an object that can't be printed"}

// TestCells: programs come to the same cell by cell in a session as at once in a job: values, output and its order, errors, files.
func TestCells(t *testing.T) {
	t.Parallel()
	_, cells, _ := strings.Cut(cells, "\n== ")
	for one := range strings.SplitSeq(cells, "\n== ") {
		name, source, _ := strings.Cut(one, "\n")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			todo, whole, begins := readCells(source)
			o, k := run(t, program(whole, asJobOf(pythonRuntime(t))))
			job := written{k.stdout.String(), asCells(k.stderr.String(), begins), o.ExitCode, strings.Fields(k.names())}
			session := written{Names: []string{}}
			for _, turn := range turns(t, sessionOf(t, "python"), todo...) {
				if turn.StateLost {
					t.Errorf("the state is lost: %+v", turn)
				}
				session.Stdout += turn.stdout.String()
				session.Stderr += turn.stderr.String()
				session.ExitCode = turn.ExitCode
				session.Names = append(session.Names, strings.Fields(turn.names())...)
			}
			slices.Sort(session.Names)
			session.Names = slices.Compact(session.Names)
			if slices.Contains(lastWords, name) {
				job.Stderr, session.Stderr = "", ""
			}
			if diff := cmp.Diff(job, session); diff != "" {
				t.Errorf("a job (-) and a session (+) differ:\n%s", diff)
			}
		})
	}
}

// readCells returns a program as turns of a session, as the source of a job, and the lines that its cells begin after there.
func readCells(source string) (todo []step, whole string, begins []int) {
	var job strings.Builder
	for cell := range strings.SplitSeq(source, "\n%%") {
		cell = strings.TrimPrefix(cell, "\n")
		begins = append(begins, strings.Count(job.String(), "\n"))
		lines := strings.Split(strings.TrimSuffix(cell, "\n"), "\n")
		last := &lines[len(lines)-1]
		value, isValue := strings.CutPrefix(*last, ">>> ")
		if isValue {
			*last = value
		}
		todo = append(todo, step{code: strings.Join(lines, "\n")})
		if isValue {
			*last = "__import__('sys').displayhook((" + value + "))"
		}
		job.WriteString(strings.Join(lines, "\n") + "\n")
	}
	return todo, job.String(), begins
}

var inMain = regexp.MustCompile(`(?:(File ")/work/main\.py(", line )|/work/main\.py(:))(\d+)`)

// asCells names the places of errors as a session does.
func asCells(text string, begins []int) string {
	return inMain.ReplaceAllStringFunc(text, func(place string) string {
		m := inMain.FindStringSubmatch(place)
		line, _ := strconv.Atoi(m[4])
		cell := len(begins) - 1
		for begins[cell] >= line {
			cell--
		}
		return fmt.Sprintf("%s<execution %d>%s%s%d", m[1], cell+1, m[2], m[3], line-begins[cell])
	})
}
