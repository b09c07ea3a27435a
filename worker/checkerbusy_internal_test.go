package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// busy has the sandboxes of a checker's program, one for each word of its script. A letter is a check: "." accepts, "w" is ended by the
// wall clock with no CPU time used, "t" with all of it. In "s" the sandbox falls silent, in "l" before the check begins, and in "m" it has
// no memory. The words "slow" and "bad" are compile steps that are not done in time, and that fail.
type busy struct {
	Sandboxes
	script []string
	made   int
	reads  string // each check
}

func (*busy) Ping(context.Context) error { return nil }

func (b *busy) Run(ctx context.Context, p sandbox.Program, sink sandbox.Sink) (sandbox.Outcome, error) {
	if p.JobID == ProbeID {
		return sandbox.Outcome{Status: job.Succeeded}, nil
	}
	word := b.script[b.made]
	b.made++
	switch word {
	case "slow":
		return sandbox.Outcome{Status: job.CompileFailed, ExitCode: job.TimedOutExitCode, Compile: &job.Compile{ExitCode: job.TimedOutExitCode}}, nil
	case "bad":
		return sandbox.Outcome{Status: job.CompileFailed, ExitCode: 1, Compile: &job.Compile{ExitCode: 1, Output: "expected ';'"}}, nil
	}
	for _, step := range word {
		test, _, err := p.Tests.Next(ctx)
		if err != nil {
			return sandbox.Outcome{}, err
		}
		stdin, err := test.Stdin.Open(ctx)
		if err != nil {
			return sandbox.Outcome{}, err
		}
		if got, err := io.ReadAll(stdin); err != nil || !strings.HasSuffix(string(got), b.reads) {
			return sandbox.Outcome{}, fmt.Errorf("a check reads %.200q, %w", got, err)
		}
		o := sandbox.TestOutcome{Status: job.TimedOut}
		switch step {
		case 's':
			return sandbox.Outcome{Status: job.TimedOut, ExitCode: job.TimedOutExitCode, Lost: true, Silent: true}, nil
		case 'l':
			return sandbox.Outcome{Lost: true}, nil
		case 'm':
			return sandbox.Outcome{Status: job.OutOfMemory, Lost: true}, nil
		case '.':
			o.Status = job.Succeeded
			if err := sink.Stdout([]byte("exit 42\n")); err != nil {
				return sandbox.Outcome{}, err
			}
		case 't':
			o.Usage.CPUMS = p.Limits.CPUMS
		}
		if err := p.Tests.Ended(ctx, o); err != nil {
			return sandbox.Outcome{}, err
		}
	}
	_, _, err := p.Tests.Next(ctx)
	return sandbox.Outcome{}, err
}

// TestCheckerOfBusyMachine: a check that the wall clock has ended, and a compile step, are made once more. Neither goes on for ever.
func TestCheckerOfBusyMachine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script string
		checks int
		want   job.Verdict
		fault  string
	}{
		{".", 1, job.Accepted, ""},
		{"w.", 1, job.Accepted, ""},
		{"ww", 1, job.JudgeError, "not done in 1000 ms"},
		{"t", 1, job.JudgeError, "not done in 1000 ms"},
		{"wwwwwwwwww" + "w", 6, job.JudgeError, "not done in 1000 ms"}, // the sixth only once
		{"s .", 1, job.Accepted, ""},
		{".l .", 2, job.Accepted, ""},
		{"s s", 1, job.JudgeError, "ended its sandbox"},
		{"m", 1, job.JudgeError, "out of memory"},
		{"slow .", 1, job.Accepted, ""},
		{"slow w.", 1, job.Accepted, ""},
		{"slow slow", 3, job.JudgeError, "could not be compiled"},
		{"slow bad", 1, job.JudgeError, "expected ';'"},
		{"bad", 2, job.JudgeError, "expected ';'"},
	} {
		t.Run(c.script, func(t *testing.T) {
			t.Parallel()
			long := strings.Repeat("x", 2*job.InlineOutput) // it is on the disk
			b := &busy{script: strings.Fields(c.script), reads: "inputanswer" + long}
			w := &Worker{Config: Config{
				Sandboxes: b, Objects: wellObjects{}, Images: []string{"image"}, SpoolDir: t.TempDir(),
				Log: slog.New(slog.DiscardHandler), Metrics: metrics.NewWorker(prometheus.NewRegistry(), nil),
			}}
			l := job.Limits{WallMS: 1000, CPUMS: 1000}
			p := &checkerProgram{worker: w, kind: job.CheckKattis, limits: l, packed: true, program: sandbox.Program{Compile: []string{"c++"}, Limits: l}}
			p.begin = func() *checkerSandbox { return p.start(t.Context()) }
			defer p.close()
			g := &grader{worker: w, tests: []job.Test{{Stdin: "input", Answer: "answer"}}, program: p, output: &capture{dir: w.SpoolDir}, passes: 1}
			if err := errors.Join(g.output.write([]byte(long)), g.output.end(false)); err != nil {
				t.Fatal(err)
			}
			defer g.output.close()
			for range c.checks {
				r, err := g.check(t.Context(), g.tests[0])
				if err != nil || r.Verdict != c.want || !strings.Contains(r.Fault, c.fault) {
					t.Fatalf("got %+v, %v, want %s, %q", r.Ruling, err, c.want, c.fault)
				}
			}
			if b.made != len(b.script) {
				t.Errorf("got %d sandboxes, want %d", b.made, len(b.script))
			}
		})
	}
}
