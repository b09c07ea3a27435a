package main

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// starts waits for the job of a command, which is the only one that is queued, and starts it.
func (p *played) starts(t *testing.T, c *command) record.Record {
	t.Helper()
	var id string
	gbtest.Eventually(t, "a job is queued", func() bool {
		select {
		case code := <-c.code:
			t.Fatalf("it ended with %d: %q", code, c.stderr.String())
		default:
		}
		list, err := p.Client.List(t.Context(), producer.ListOptions{Status: []job.Status{job.Queued}})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Jobs) == 0 {
			return false
		}
		id = list.Jobs[0].ID
		return true
	})
	return p.Start(t, id)
}

// TestRun plays the worker of programs that somebody runs.
func TestRun(t *testing.T) {
	t.Parallel()
	w := newPlayed(t)
	number := func(n int) *int { return &n }
	hello := []string{"testdata/hello.bash"}
	for _, c := range []struct {
		name, stdin    string
		args           []string
		spec           func(job.Spec) bool
		files          map[string]string
		end            func(*job.Result)
		code           int
		stdout, stderr string
	}{
		{name: "hello", stdin: "in\n", args: []string{"testdata/hello.bash", "--verbose", "-x"}, stdout: "hello\n", spec: func(s job.Spec) bool {
			return s.Runtime == "bash" && s.Stdin == "in\n" && strings.Join(s.Args, " ") == "--verbose -x" && s.Entrypoint == "hello.bash"
		}},
		{name: "bytes of standard input", stdin: "\xff", args: hello, stdout: "hello\n", spec: func(s job.Spec) bool { return s.StdinBase64 == "/w==" }},
		{name: "from standard input", stdin: "print(1)", args: []string{"--runtime", "python", "-"}, stdout: "hello\n", spec: func(s job.Spec) bool { return s.Source == "print(1)" && s.Stdin == "" }},
		{name: "exits with 3", args: hello, code: 3, stdout: "hello\n", stderr: "no\n", end: func(r *job.Result) {
			r.Status, r.ExitCode, r.Stderr = job.Failed, number(3), "no\n"
		}},
		{name: "crashes", args: hello, code: 139, stdout: "hello\n", stderr: "glovebox: failed (SIGSEGV)\n", end: func(r *job.Result) {
			r.Status, r.ExitCode, r.Signal = job.Failed, number(139), "SIGSEGV"
		}},
		{name: "takes too long", args: hello, code: 124, stdout: "hello\n", stderr: "glovebox: timed out (exit code 124); limit wall_ms\n", end: func(r *job.Result) {
			r.Status, r.ExitCode, r.Limit = job.TimedOut, number(124), "wall_ms"
		}},
		{name: "does not compile", args: hello, code: 1, stderr: "error: here\n", end: func(r *job.Result) {
			r.Status, r.ExitCode, r.Stdout, r.Compile = job.CompileFailed, nil, "", &job.Compile{ExitCode: 1, Output: "error: here\n"}
		}},
		{name: "Glovebox's fault", args: hello, code: exitCannotRun, stderr: "glovebox: internal error; no luck\n", end: func(r *job.Result) {
			r.Status, r.ExitCode, r.Stdout, r.Error = job.InternalError, nil, "", &job.Error{Code: job.CodeInternal, Message: "no luck"}
		}},
		{name: "leaves a file", args: hello, files: map[string]string{"made.txt": "x"}, stdout: "hello\n", stderr: "it made files; glovebox get --out DIR"},
		{name: "leaves a file here", args: append([]string{"--out", t.TempDir()}, hello...), files: map[string]string{"made.txt": "x"}, stdout: "hello\n"},
	} {
		cmd := w.run(t.Context(), c.stdin, append([]string{"run"}, c.args...)...)
		j := w.starts(t, cmd)
		if c.spec != nil && !c.spec(*j.Spec) {
			t.Errorf("%s: got %+v", c.name, j.Spec)
		}
		w.End(t, j, c.files, c.end)
		cmd.ends(t, c.code, c.stdout)
		got := waits.ReplaceAllString(cmd.stderr.String(), "") // told on a busy machine
		if got != c.stderr && (c.files == nil || !strings.Contains(got, c.stderr)) {
			t.Errorf("%s: got %q on standard error, want %q", c.name, got, c.stderr)
		}
	}
}

// waits is what a command says that has waited for some seconds.
var waits = regexp.MustCompile(`glovebox: (job \S+ waits for a worker|reading standard input)[^\n]*\n`)

// TestRunInterrupted: Ctrl-C ends the program, also one that has not begun.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	w := newPlayed(t)
	ctx, interrupt := context.WithCancel(t.Context())
	cmd := w.run(ctx, "", "run", "testdata/hello.bash")
	awaitPrinted(t, &cmd.stderr, "waits for a worker")
	id := strings.Fields(cmd.stderr.String())[2]
	interrupt()
	cmd.ends(t, exitInterrupted, "")
	if j, err := w.Client.Get(t.Context(), id); err != nil || j.Status != job.Canceled {
		t.Errorf("got %+v, %v", j, err)
	}
}

// TestRunIsRefused: whatever is not the program's doing has a code that is not taken for one of the program's.
func TestRunIsRefused(t *testing.T) {
	t.Parallel()
	w := newPlayed(t)
	for _, args := range [][]string{
		{"run"},
		{"run", "nowhere.py"},
		{"run", "testdata/script"},
		{"run", "-"},
		{"run", "--limit", "wall_ms=99999999", "testdata/hello.bash"},
		{"run", "--runtime", "klingon", "testdata/hello.bash"},
		{"run", "--stdin-file", "nowhere", "testdata/hello.bash"},
	} {
		cmd := w.run(t.Context(), "", args...)
		cmd.ends(t, exitCannotRun, "")
		if !strings.HasPrefix(cmd.stderr.String(), "glovebox: ") {
			t.Errorf("%q: got %q", args, cmd.stderr.String())
		}
	}
}
