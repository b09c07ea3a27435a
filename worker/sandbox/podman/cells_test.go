package podman_test

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
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

// TestCells: programs come to the same cell by cell in a session as at once in a job: values, output and its order, errors, files. So they do in
// a session whose interpreter was prepared.
func TestCells(t *testing.T) {
	t.Parallel()
	prepared := preloaded(t, fromSnapshots+"cells", 2)
	var alone sync.Mutex // with what is prepared
	_, cells, _ := strings.Cut(cells, "\n== ")
	for _, one := range inShort(0, 3, strings.Split(cells, "\n== ")) {
		name, source, _ := strings.Cut(one, "\n")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			todo, whole, begins := readCells(source)
			o, k := run(t, program(whole, asJobOf(pythonRuntime(t))))
			job := written{k.stdout.String(), asCells(k.stderr.String(), begins), o.ExitCode, strings.Fields(k.names())}
			for _, how := range []string{"a", "a prepared"} {
				sandboxes := map[string]*podman.Sandboxes{"a": open(t), "a prepared": prepared}[how]
				if sandboxes == prepared {
					alone.Lock()
					defer alone.Unlock()
					awaitPreloaded(t, prepared)
				}
				done, o := turnsIn(t, sandboxes, sessionOf(t, "python"), todo...)
				if o.Preloaded != (sandboxes == prepared) {
					t.Errorf("%s session: preloaded is %v", how, o.Preloaded)
				}
				session := inTurns(t, done)
				if slices.Contains(lastWords, name) {
					job.Stderr, session.Stderr = "", ""
				}
				if diff := cmp.Diff(job, session); diff != "" {
					t.Errorf("a job (-) and %s session (+) differ:\n%s", how, diff)
				}
			}
		})
	}
}

// inTurns is what the turns of a session came to.
func inTurns(t *testing.T, done []turned) written {
	t.Helper()
	all := written{Names: []string{}}
	for _, turn := range done {
		if turn.StateLost {
			t.Errorf("the state is lost: %+v", turn)
		}
		all.Stdout += turn.stdout.String()
		all.Stderr += turn.stderr.String()
		all.ExitCode = turn.ExitCode
		all.Names = append(all.Names, strings.Fields(turn.names())...)
	}
	slices.Sort(all.Names)
	all.Names = slices.Compact(all.Names)
	return all
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
