package podman_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// typedIn is an input that is sent once the program has printed something.
type typedIn struct {
	after string
	in    job.Input
}

// typist is a sink that answers what a program prints.
type typist struct {
	kept
	steps []typedIn

	mu      sync.Mutex
	said    string
	printed chan struct{} // closed, and another, with each piece
}

func newTypist(steps ...typedIn) *typist { return &typist{steps: steps, printed: make(chan struct{})} }

func (k *typist) Stdout(p []byte) error {
	k.mu.Lock()
	k.said += string(p)
	close(k.printed)
	k.printed = make(chan struct{})
	k.mu.Unlock()
	return k.kept.Stdout(p)
}

func (k *typist) Next(ctx context.Context, n int) ([]job.Input, error) {
	for {
		k.mu.Lock()
		printed := k.printed
		if n < len(k.steps) && strings.Contains(k.said, k.steps[n].after) {
			k.mu.Unlock()
			return []job.Input{k.steps[n].in}, nil
		}
		k.mu.Unlock()
		select {
		case <-printed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// TestInteractive: what comes while a program runs reaches it, in order, and its end; signals reach each of its processes; and
// nothing waits for a program that doesn't read.
func TestInteractive(t *testing.T) {
	t.Parallel()
	p := open(t)
	const echo = "import sys\nfor line in sys.stdin: print('<' + line.strip() + '>', flush=True)\nprint('end')"
	data := func(after, text string) typedIn { return typedIn{after, job.Input{Data: text}} }
	eof := func(after string) typedIn { return typedIn{after, job.Input{EOF: true}} }
	signal := func(after, name string) typedIn { return typedIn{after, job.Input{Signal: name}} }
	stdin := func(text string) func(*sandbox.Program) {
		return func(p *sandbox.Program) { p.Stdin = []byte(text) }
	}
	long := strings.Repeat("0123456789abcde\n", 4<<10) // 64 KiB, as much as a pipe holds
	for name, c := range map[string]struct {
		program sandbox.Program
		steps   []typedIn
		status  job.Status
		code    int
		stdout  string
	}{
		"a dialog":                  {program(echo), []typedIn{data("", "one\n"), data("<one>", "tw"), data("<one>", "o\n"), eof("<two>")}, job.Succeeded, 0, "<one>\n<two>\nend\n"},
		"behind stdin":              {program(echo, stdin("first\n")), []typedIn{data("<first>", "last"), eof("")}, job.Succeeded, 0, "<first>\n<last>\nend\n"},
		"bytes":                     {program("import sys; print(sys.stdin.buffer.read())"), []typedIn{{"", job.Input{DataBase64: "AP8K", EOF: true}}}, job.Succeeded, 0, "b'\\x00\\xff\\n'\n"},
		"an end alone":              {program(echo), []typedIn{eof("")}, job.Succeeded, 0, "end\n"},
		"a shell reads lines":       {bash("echo ready; read a; read b; echo $b $a"), []typedIn{data("ready", "1\n2\n")}, job.Succeeded, 0, "ready\n2 1\n"},
		"opened again":              {bash("echo ready; read a </dev/stdin; echo $a; cat /proc/self/fd/0"), []typedIn{data("ready", "1\n"), data("1\n", "rest"), eof("")}, job.Succeeded, 0, "ready\n1\nrest"},
		"nobody reads":              {bash("echo ready; sleep 1; echo done"), []typedIn{data("ready", long), data("", long), data("", long[:60<<10]), eof("")}, job.Succeeded, 0, "ready\ndone\n"},
		"much, read late":           {bash("echo ready; sleep 1; wc -c"), []typedIn{data("ready", long), data("", long), data("", long[:60<<10]), eof("")}, job.Succeeded, 0, "ready\n192512\n"},
		"much stdin, and behind it": {bash("wc -c", stdin(long+long+long)), []typedIn{data("", "1234"), eof("")}, job.Succeeded, 0, "196612\n"},
		"closed by the program":     {bash("exec <&-; echo closed; sleep 1; echo done"), []typedIn{data("closed", "1\n"), data("", "2\n")}, job.Succeeded, 0, "closed\ndone\n"},
		"without an end":            {program("print(input())"), []typedIn{data("", "1\n")}, job.Succeeded, 0, "1\n"},
		"not asked for":             {program("print(1)"), nil, job.Succeeded, 0, "1\n"},
		"interrupted":               {program("import time\ntry:\n    print('up', flush=True)\n    while True: time.sleep(0.1)\nexcept KeyboardInterrupt: print('down')"), []typedIn{signal("up", "SIGINT")}, job.Succeeded, 0, "up\ndown\n"},
		"terminated":                {bash("echo up; sleep 99"), []typedIn{signal("up", "SIGTERM")}, job.Failed, 143, "up\n"},
		"killed":                    {bash("trap '' INT TERM; echo up; while :; do :; done"), []typedIn{signal("up", "SIGKILL")}, job.Failed, 137, "up\n"},
		"each process":              {bash("trap : USR1; (trap 'echo child; exit' USR1; echo up; while :; do sleep 0.1; done) & wait; wait"), []typedIn{signal("up", "SIGUSR1")}, job.Succeeded, 0, "up\nchild\n"},
		"its own time":              {program("print('up', flush=True); input()", limits(job.Limits{WallMS: 20_000})), []typedIn{data("up", "no line")}, job.TimedOut, 124, "up\n"},
		"compiled first": {program("", func(p *sandbox.Program) {
			p.Compile, p.Command = []string{"cp", "/bin/cat", "/tmp/copy"}, []string{"/tmp/copy"}
		}), []typedIn{data("", "1\n"), eof("1")}, job.Succeeded, 0, "1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gbtest.WhenIdle(t)
			k := newTypist(c.steps...)
			c.program.Input, c.program.Image = k, suite.image
			o, err := p.Run(t.Context(), c.program, k)
			if err != nil || o.Status != c.status || o.ExitCode != c.code || k.stdout.String() != c.stdout {
				t.Errorf("got %+v, %v, %q %q, want %s %d %q", o, err, k.stdout.String(), k.stderr.String(), c.status, c.code, c.stdout)
			}
		})
	}
}
