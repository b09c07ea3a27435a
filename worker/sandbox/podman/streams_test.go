package podman_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// alternating prints on both streams in turns, in three languages.
func alternating(tb testing.TB) map[string]sandbox.Program {
	tb.Helper()
	return map[string]sandbox.Program{
		"python": program("import os\nfor i in range(100): os.write(1 + i % 2, b'%d\\n' % i)"),
		"bash":   bash("for i in {0..99}; do if ((i % 2)); then echo $i >&2; else echo $i; fi; done"),
		"c": inC(tb, `#include <stdio.h>
int main(void) { for (int i = 0; i < 100; i++) { fprintf(i % 2 ? stderr : stdout, "%d\n", i); fflush(stdout); } }`),
	}
}

func mergeStderr(p *sandbox.Program)    { p.MergeStderr = true }
func truncateOutput(p *sandbox.Program) { p.TruncateOutput = true }

// TestMergeStderr: what a program prints on either stream comes in order, and what Glovebox says apart from it.
func TestMergeStderr(t *testing.T) {
	t.Parallel()
	var inOrder strings.Builder
	for i := range 100 {
		fmt.Fprintln(&inOrder, i)
	}
	for name, p := range alternating(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mergeStderr(&p)
			o, k := run(t, p)
			if o.Status != job.Succeeded || k.stdout.String() != inOrder.String() || k.stderr.Len() > 0 {
				t.Errorf("got %+v, %q, %q", o, k.stdout.String(), k.stderr.String())
			}
			graded, got := grade(t, p, "a", "b")
			if graded.Status != job.Succeeded || len(got) != 2 || got[1].stdout != inOrder.String() || got[1].stderr != "" {
				t.Errorf("with tests: got %+v, %+v", graded, got)
			}
		})
	}
	for name, c := range map[string]struct {
		program        sandbox.Program
		status         job.Status
		limit          string
		stdout, stderr string
	}{
		"too long":           {bash("echo a >&2; sleep 60", limits(job.Limits{WallMS: 20_000})), job.TimedOut, "wall_ms", "a\n", "Execution timed out\n"},
		"one limit for both": {bash("head -c 3000 /dev/zero; head -c 3000 /dev/zero >&2; sleep 60", limits(job.Limits{OutputKB: 4})), job.OutputLimitExceeded, "output_kb", strings.Repeat("\x00", 4096), ""},
		"no such program":    {program("", command("nothing")), job.Failed, "", "", "glovebox: nothing: command not found\n"},
		"closed":             {bash("exec 3>&2 2>&-; echo a >&3; echo b >&2; echo c"), job.Succeeded, "", "a\nc\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mergeStderr(&c.program)
			o, k := run(t, c.program)
			if o.Status != c.status || o.Limit != c.limit || k.stdout.String() != c.stdout || k.stderr.String() != c.stderr {
				t.Errorf("got %+v, %.200q, %.200q", o, k.stdout.String(), k.stderr.String())
			}
		})
	}
}

// TestTruncateOutput: a program that prints too much goes on, and ends as it ends.
func TestTruncateOutput(t *testing.T) {
	t.Parallel()
	large := limits(job.Limits{OutputKB: 4, WallMS: 60_000, Artifacts: 1})
	for name, c := range map[string]struct {
		program     sandbox.Program
		status      job.Status
		exit        int
		out, err    int // bytes
		outCut, cut bool
	}{
		"python":        {program("import sys\nfor i in range(100_000): print('x' * 99)\nopen('end', 'w').write('x')\nsys.exit(3)", large), job.Failed, 3, 4096, 0, true, false},
		"bash":          {bash("head -c 10M /dev/zero >&2; echo > end", large), job.Succeeded, 0, 0, 4096, false, true},
		"c":             {inC(t, "#include <stdio.h>\nint main(void) { for (int i = 0; i < 1000000; i++) puts(\"xxxxxxxxx\"); fopen(\"end\", \"w\"); return 0; }"), job.Succeeded, 0, 4096, 0, true, false},
		"both":          {bash("head -c 5000 /dev/zero; head -c 5000 /dev/zero >&2; echo > end", large), job.Succeeded, 0, 4096, 4096, true, true},
		"in one stream": {bash("head -c 3000 /dev/zero; head -c 3000 /dev/zero >&2; echo > end", large, mergeStderr), job.Succeeded, 0, 4096, 0, true, false},
		"no more":       {bash("head -c 4096 /dev/zero; echo > end", large), job.Succeeded, 0, 4096, 0, false, false},
		"a signal":      {bash("head -c 5000 /dev/zero; echo > end; kill -SEGV $$", large), job.Failed, 139, 4096, 0, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			large(&c.program)
			truncateOutput(&c.program)
			o, k := run(t, c.program)
			if o.Status != c.status || o.ExitCode != c.exit || o.Limit != "" || k.stdout.Len() != c.out || k.stderr.Len() != c.err ||
				o.StdoutTruncated != c.outCut || o.StderrTruncated != c.cut || k.names() != "end" {
				t.Errorf("got %+v, %d and %d bytes, artifacts %s, compile step %+v", o, k.stdout.Len(), k.stderr.Len(), k.names(), o.Compile)
			}
		})
	}
	t.Run("without end", func(t *testing.T) {
		t.Parallel()
		o, k := run(t, bash("yes", limits(job.Limits{OutputKB: 4, WallMS: 20_000, CPUMS: 2_000}), truncateOutput))
		if o.Status != job.TimedOut || !strings.HasPrefix(o.Limit, "wall_ms") && o.Limit != "cpu_ms" || !o.StdoutTruncated || k.stdout.Len() != 4096 {
			t.Errorf("got %+v, %d bytes", o, k.stdout.Len())
		}
	})
	t.Run("with tests", func(t *testing.T) {
		t.Parallel()
		o, got := grade(t, bash("read n; head -c $n /dev/zero; head -c 100000 /dev/zero >&2; exit 3", large, truncateOutput), "5000\n", "10\n", "10000000\n")
		if o.Status != job.Succeeded || len(got) != 3 {
			t.Fatalf("got %+v, %d tests", o, len(got))
		}
		for i, want := range []int{4096, 10, 4096} {
			if got[i].Status != job.Failed || got[i].ExitCode != 3 || len(got[i].stdout) != want {
				t.Errorf("test %d: got %+v, %d bytes, want %d", i, got[i].TestOutcome, len(got[i].stdout), want)
			}
		}
	})
}

// TestStreamsByName: a program can open its streams by name, as shell scripts do.
func TestStreamsByName(t *testing.T) {
	t.Parallel()
	p := bash("echo a > /dev/stderr; echo b > /dev/stdout; echo c >> /dev/fd/2; echo d | tee /dev/stderr")
	if o, k := run(t, p); o.Status != job.Succeeded || k.stdout.String() != "b\nd\n" || k.stderr.String() != "a\nc\nd\n" {
		t.Errorf("got %+v, %q, %q", o, k.stdout.String(), k.stderr.String())
	}
	if o, got := grade(t, p, "1", "2"); o.Status != job.Succeeded || len(got) != 2 || got[1].stdout != "b\nd\n" || got[1].stderr != "a\nc\nd\n" {
		t.Errorf("with tests: got %+v, %+v", o, got)
	}
	mergeStderr(&p)
	if o, k := run(t, p); o.Status != job.Succeeded || len(k.stdout.String()) != 10 {
		t.Errorf("merged: got %+v, %q", o, k.stdout.String())
	}
}
