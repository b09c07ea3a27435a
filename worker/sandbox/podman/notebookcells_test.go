package podman_test

import (
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

//go:embed testdata/notebookcells.txt
var notebookCells string

// notebookCell is a cell, and what it must come to.
type notebookCell struct {
	code    string
	stdout  string // a pattern of all of it
	stderr  string // a part of it
	fails   string // a part of the error; "": it doesn't
	results []string
	names   []string // of its files
}

// TestNotebookCells: code with what notebooks have beside Python does in a session what it does there, as far as that makes sense without a browser and a network.
func TestNotebookCells(t *testing.T) {
	t.Parallel()
	wanted := readNotebookCells(t)
	todo := make([]step, len(wanted))
	for i, w := range wanted {
		todo[i].code = w.code
	}
	for _, how := range inShort(0, 2, []string{"started", "prepared"}) {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			sandboxes := open(t)
			if how == "prepared" {
				sandboxes = preloaded(t, "notebook-cells", 1)
				awaitPreloaded(t, sandboxes)
			}
			got, o := turnsIn(t, sandboxes, sessionOf(t, "python"), todo...)
			if o.Preloaded != (how == "prepared") {
				t.Errorf("preloaded is %v", o.Preloaded)
			}
			for i, w := range wanted {
				checkNotebookCell(t, i+1, w, got[i])
			}
		})
	}
}

func checkNotebookCell(t *testing.T, number int, w notebookCell, got turned) {
	t.Helper()
	results, exception := got.said(t)
	var media []string
	for _, r := range results {
		media = append(media, strings.Join(slices.Sorted(maps.Keys(r.Data)), " "))
	}
	status, failure := job.Succeeded, ""
	if w.fails != "" {
		status = job.Failed
	}
	if exception != nil {
		failure = exception.Traceback
	}
	fails := strings.ReplaceAll(strings.ReplaceAll(w.fails, `\n`, "\n"), "<execution N>", fmt.Sprintf("<execution %d>", number))
	if got.Status != status || got.StateLost || (failure == "") != (fails == "") || !strings.Contains(failure, fails) ||
		!regexp.MustCompile("^"+w.stdout+"$").MatchString(got.stdout.String()) || !strings.Contains(got.stderr.String(), w.stderr) || w.stderr == "" && fails == "" && got.stderr.Len() > 0 ||
		!slices.Equal(media, w.results) || !slices.Equal(strings.Fields(got.names()), w.names) {
		t.Errorf("%s\ncomes to %s, stdout %q, stderr %q, results %q, files %q; want %+v", w.code, got.Status, got.stdout.String(), got.stderr.String(), media, got.names(), w)
	}
}

func readNotebookCells(t *testing.T) (cells []notebookCell) {
	t.Helper()
	_, text, _ := strings.Cut(strings.TrimSuffix(notebookCells, "\n"), "\n== ")
	for program := range strings.SplitSeq(text, "\n== ") {
		_, program, _ = strings.Cut(program, "\n")
		var cell notebookCell
		var code []string
		ends := false
		for line := range strings.SplitSeq(program, "\n") {
			mark, value := "", ""
			if len(line) > 1 && line[0] == '=' && strings.ContainsRune(">~2*+!.", rune(line[1])) {
				mark, value = line[:2], strings.TrimPrefix(line[2:], " ")
			}
			if mark == "" && ends {
				cells, cell, code, ends = append(cells, cell), notebookCell{}, nil, false
			}
			switch mark {
			case "=>":
				cell.stdout += regexp.QuoteMeta(value + "\n")
			case "=~":
				cell.stdout += value + "\n"
			case "=2":
				cell.stderr = value
			case "=*":
				cell.results = append(cell.results, value)
			case "=+":
				cell.names = append(cell.names, value)
			case "=!":
				cell.fails = value
			case "":
				code = append(code, line)
				cell.code = strings.Join(code, "\n")
				continue
			}
			ends = true
		}
		if !ends {
			t.Fatalf("%s\nhas no end", cell.code)
		}
		cells = append(cells, cell)
	}
	return cells
}

// TestNotebookLeavesPython: what looks for the notation of notebooks finds none in Python: not in its library's own files, whose strings and lines are of every form.
func TestNotebookLeavesPython(t *testing.T) {
	t.Parallel()
	files := "'/usr/lib/python3*/**/*.py', recursive=True)"
	if testing.Short() {
		files = "'/usr/lib/python3.13/*.py')[::4]"
	}
	code := `
import glob, glovebox_cells
seen = 0
for name in glob.glob(` + files + `:
    try:
        text = open(name, encoding='utf-8').read()
    except UnicodeDecodeError:
        continue
    seen += 1
    if glovebox_cells._turned(text) != (text, set()):
        print(name)
seen > 30
`
	check(t, turns(t, sessionOf(t, "python"), step{code: code, wall: 5 * time.Minute}), want{stdout: "True\n"})
}

// TestNotebookIPython: a session has the names of IPython unless there is one that is installed, and a job has none.
func TestNotebookIPython(t *testing.T) {
	t.Parallel()
	installed := "open('IPython.py', 'w').write('mine = 41\\ndef get_ipython(): pass')"
	check(t, turns(t, sessionOf(t, "python"), step{code: installed}, step{code: "import IPython\nIPython.mine + 1, IPython.get_ipython()"}, step{code: "!echo by {get_ipython().user_ns['IPython'].mine}"}),
		want{stdout: "33\n"}, want{stdout: "(42, None)\n"}, want{stdout: "by 41\n"})
	o, k := run(t, program("import sys\nprint('get_ipython' in dir(__builtins__), [name for name in sys.path if 'notebook' in name])\nimport IPython", asJobOf(pythonRuntime(t))))
	if o.Status != job.Failed || k.stdout.String() != "False []\n" || !strings.Contains(k.stderr.String(), "No module named 'IPython'") {
		t.Errorf("got %+v, %q, %q", o, k.stdout.String(), k.stderr.String())
	}
}

// TestNotebookCommands: what a command starts belongs to its execution. It is interrupted with it, its limits hold, and the state is kept.
func TestNotebookCommands(t *testing.T) {
	t.Parallel()
	p := sessionOf(t, "python")
	p.Limits.OutputKB = 64
	alone := "left = !grep -la ^sleep /proc/[0-9]*/cmdline\nlen(left), x"
	interrupted := want{stdout: "begun\n", status: job.Canceled, code: 130, stderr: "KeyboardInterrupt"}
	var todo []step
	var wanted []want
	for _, code := range []string{
		"!echo begun; sleep 100", "%%bash\necho begun; sleep 100; echo never", "print('begun', flush=True)\ny = !sleep 100", "%time !echo begun; sleep 100",
		"import contextlib, io\nprint('begun', flush=True)\nwith contextlib.redirect_stdout(io.StringIO()):\n    !trap '' INT; exec sleep 100",
	} {
		todo = append(todo, step{code: code, interruptAt: "begun"}, step{code: alone})
		wanted = append(wanted, interrupted, want{stdout: "(0, 41)\n"})
	}
	todo = append([]step{{code: "x = 41"}}, todo...)
	wanted = append([]want{{}}, wanted...)
	todo = append(todo, step{code: "!sleep 100", wall: time.Second}, step{code: alone}, step{code: "!yes"}, step{code: "!ulimit -n; echo {x + 1}"})
	got := turns(t, p, todo...)
	check(t, got[:len(wanted)], wanted...)
	got = got[len(wanted):]
	check(t, got[:2], want{status: job.TimedOut, code: 124, stderr: "KeyboardInterrupt"}, want{stdout: "(0, 41)\n"})
	if yes := got[2]; yes.Status != job.OutputLimitExceeded || yes.StateLost || yes.count > 64<<10 {
		t.Errorf("a command that prints without end: %s, lost %v, %d bytes", yes.Status, yes.StateLost, yes.count)
	}
	check(t, got[3:], want{stdout: "256\n42\n"})
}
