package worker_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
)

// TestStreams: what a job says of its streams, and what its result says of them and of the limit that ended it.
func TestStreams(t *testing.T) {
	t.Parallel()
	signer, err := attest.NewSigner(attest.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	g := start(t, func(c *worker.Config) { c.Signer = signer })
	kilobyte := job.Limits{OutputKB: 1}
	for _, c := range []struct {
		name   string
		spec   job.Spec
		status job.Status
		limit  string
		stdout string
		stderr string
		cut    string // the streams that were cut
	}{
		{name: "stdin of bytes, python", spec: job.Spec{Runtime: "python", Source: "import sys; print(sys.stdin.buffer.read())", StdinBase64: "AP8K"}, status: job.Succeeded, stdout: "b'\\x00\\xff\\n'\n"},
		{name: "stdin of bytes, bash", spec: job.Spec{Runtime: "bash", Source: "od -An -tx1", StdinBase64: "AP8K"}, status: job.Succeeded, stdout: " 00 ff 0a\n"},
		{name: "stdin of bytes, c", spec: job.Spec{Runtime: "c", Source: "#include <stdio.h>\nint main(void) { int c; while ((c = getchar()) != EOF) printf(\"%d,\", c); }", StdinBase64: "AP8K"}, status: job.Succeeded, stdout: "0,255,10,"},
		{name: "stdin of bytes for a shell's line", spec: job.Spec{Runtime: "bash", Commands: &job.Commands{Run: "od -An -tx1"}, StdinBase64: "gA=="}, status: job.Succeeded, stdout: " 80\n"},
		{name: "one stream", spec: job.Spec{Runtime: "bash", Source: "echo a; echo b >&2; echo c", MergeStderr: true}, status: job.Succeeded, stdout: "a\nb\nc\n"},
		{name: "cut", spec: job.Spec{Runtime: "bash", Source: "head -c 2000 /dev/zero | tr '\\0' x; echo b >&2", Limits: kilobyte, TruncateOutput: true}, status: job.Succeeded, stdout: strings.Repeat("x", 1024), stderr: "b\n", cut: "stdout"},
		{name: "stopped", spec: job.Spec{Runtime: "bash", Source: "head -c 2000 /dev/zero | tr '\\0' x >&2; sleep 60", Limits: kilobyte}, status: job.OutputLimitExceeded, limit: "output_kb", stderr: strings.Repeat("x", 1024), cut: "stderr"},
		{name: "wall clock", spec: job.Spec{Runtime: "bash", Source: "sleep 60", Limits: job.Limits{WallMS: 500}}, status: job.TimedOut, limit: "wall_ms", stderr: "Execution timed out\n"},
		{name: "CPU time", spec: job.Spec{Runtime: "bash", Source: "while :; do :; done", Limits: job.Limits{CPUMS: 500, WallMS: 60_000}}, status: job.TimedOut, limit: "cpu_ms", stderr: "Execution timed out\n"},
		{name: "memory", spec: job.Spec{Runtime: "python", Source: "x = bytearray(200 << 20)", Limits: job.Limits{MemoryMB: 64}}, status: job.OutOfMemory, limit: "memory_mb"},
		{name: "no limit", spec: job.Spec{Runtime: "bash", Source: "exit 3"}, status: job.Failed},
		{name: "cut between characters", spec: job.Spec{Runtime: "bash", Source: "printf '\\342'; sleep 0.1; printf '\\202\\254'; printf '€%.0s' {1..400}", TruncateOutput: true, Limits: job.Limits{OutputKB: 1}}, status: job.Succeeded, stdout: strings.Repeat("€", 341), cut: "stdout"},
		{name: "ended by its output between characters", spec: job.Spec{Runtime: "bash", Source: "printf '€%.0s' {1..400}; sleep 60", Limits: job.Limits{OutputKB: 1}}, status: job.OutputLimitExceeded, limit: "output_kb", stdout: strings.Repeat("€", 341), cut: "stdout"},
		{name: "a limit of a compile step that printed much", spec: job.Spec{Runtime: "c", Commands: &job.Commands{Compile: "yes warning | head -c 70000; sleep 60", Run: "true"}, Limits: job.Limits{CompileWallMS: 5000}}, status: job.CompileFailed},
		{name: "a limit of a compile step", spec: job.Spec{Runtime: "c", Commands: &job.Commands{Compile: "sleep 60", Run: "true"}, Limits: job.Limits{CompileWallMS: 500}}, status: job.CompileFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.spec.Check([]string{"python", "bash", "c"}, nil, job.DefaultMaximums); err != nil {
				t.Fatal(err)
			}
			c.spec = ample(c.spec) // as it is submitted
			r := g.result(g.submit(c.spec))
			var cut []string
			if r.StdoutTruncated {
				cut = append(cut, "stdout")
			}
			if r.StderrTruncated {
				cut = append(cut, "stderr")
			}
			if r.Status != c.status || r.Limit != c.limit || r.Stdout != c.stdout || r.Stderr != c.stderr || strings.Join(cut, " ") != c.cut {
				b, _ := json.MarshalIndent(r, "", "  ")
				t.Errorf("got %.3000s\nwant %s, limit %q, %.100q, %.100q, cut %s", b, c.status, c.limit, c.stdout, c.stderr, c.cut)
			}
			if r.StdoutURL+r.StderrURL != "" {
				t.Errorf("it is all in the result, and has %q and %q", r.StdoutURL, r.StderrURL)
			}
			if r.Status == job.CompileFailed && !strings.HasSuffix(r.Compile.Output, "Compilation timed out\n") {
				t.Errorf("its compile step printed %d bytes that end in %q", len(r.Compile.Output), r.Compile.Output[max(0, len(r.Compile.Output)-100):])
			}
			verified, err := attest.Verify(r, []attest.Key{signer.Key()})
			if err != nil {
				t.Fatal(err)
			}
			if sum, err := attest.InputHash(c.spec); err != nil || sum != verified.Statement.Predicate.InputHash {
				t.Errorf("the statement has another input than %s, %v", sum, err)
			}
		})
	}
}
