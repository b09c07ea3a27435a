package e2e

import (
	"fmt"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// sample is a kind of job and what each job of it deserves. n makes jobs differ, so
// that one's result can't pass for another's.
type sample struct {
	name   string
	spec   func(n int) job.Spec
	status job.Status
	// wrong says what is wrong with the result besides its status, or "".
	wrong func(n int, r job.Result) string
}

// patient is what a job needs on a machine that is much too busy for it.
var patient = job.Limits{WallMS: 120_000}

// canceled is the kind that somebody cancels soon after it was submitted.
const canceled = "canceled"

// samples is the mix of a chaos test, in equal parts.
var samples = []sample{
	{"bash", code("bash", "echo hello %d", patient), job.Succeeded, printed("hello %d\n")},
	{"python", code("python", "print('hello', %d)", patient), job.Succeeded, printed("hello %d\n")},
	{"node", code("node", "console.log('hello', %d)", patient), job.Succeeded, printed("hello %d\n")},
	{"files", code("python", `
import hashlib, os
print('files of', %d, flush=True)
os.mkdir('a dir')
for i, size in enumerate((0, 1, 1000, 100_000, 2_000_000)):
    b = os.urandom(size)
    open(f'a dir/{i} ü.bin', 'wb').write(b)
    print(hashlib.sha256(b).hexdigest())
`, patient), job.Succeeded, hashed(5)},
	{"small file", code("bash", "echo made by %d | tee out.txt >&2; sha256sum <out.txt", patient), job.Succeeded, hashed(1)},
	{"large file", code("bash", "echo %d; head -c 20000000 /dev/urandom >large.bin; sha256sum <large.bin", patient), job.Succeeded, hashed(1)},
	{"exit code", code("bash", "echo so long %d; exit 3", patient), job.Failed, both(printed("so long %d\n"), exited(3))},
	{"exception", code("python", "print('before', %d, flush=True)\n1/0", patient), job.Failed, both(printed("before %d\n"), exited(1))},
	{"signal", code("bash", "echo %d; kill -SEGV $$", patient), job.Failed, exited(139)},
	{"endless", code("bash", "echo start %d; sleep 1000", job.Limits{WallMS: 1500}), job.TimedOut, exited(job.TimedOutExitCode)},
	{"memory", code("python", "print(%d, flush=True)\nx = b'x' * (1 << 30)", job.Limits{WallMS: 120_000, MemoryMB: 64}), job.OutOfMemory, nothing},
	{"flood", code("bash", "echo %d; yes", job.Limits{WallMS: 120_000, OutputKB: 64}), job.OutputLimitExceeded, nothing},
	{"long output", code("python", "print('x' * 300_000, %d)", patient), job.Succeeded, func(_ int, r job.Result) string {
		if r.StdoutURL == "" || len(r.Stdout) != job.InlineOutput {
			return fmt.Sprintf("%d bytes of stdout, the rest at %q", len(r.Stdout), r.StdoutURL)
		}
		return ""
	}},
	{"large spec", func(n int) job.Spec {
		return job.Spec{Runtime: "js", Limits: patient, Source: fmt.Sprintf("//%s\nconsole.log('hello', %d)", strings.Repeat("x", 150_000), n)}
	}, job.Succeeded, printed("hello %d\n")},
	{canceled, code("bash", "echo wait %d; sleep 15", patient), job.Succeeded, nothing}, // or canceled, as the one who asked was told
}

func code(runtime, source string, l job.Limits) func(int) job.Spec {
	return func(n int) job.Spec {
		return job.Spec{Runtime: runtime, Source: fmt.Sprintf(source, n), Limits: l}
	}
}

func nothing(int, job.Result) string { return "" }

func both(a, b func(int, job.Result) string) func(int, job.Result) string {
	return func(n int, r job.Result) string { return a(n, r) + b(n, r) }
}

func printed(format string) func(int, job.Result) string {
	return func(n int, r job.Result) string {
		if want := fmt.Sprintf(format, n); r.Stdout != want {
			return fmt.Sprintf("stdout %.100q, want %.100q", r.Stdout, want)
		}
		return ""
	}
}

func exited(exitCode int) func(int, job.Result) string {
	return func(_ int, r job.Result) string {
		if r.ExitCode == nil || *r.ExitCode != exitCode {
			return fmt.Sprintf("exit code %v, want %d", r.ExitCode, exitCode)
		}
		return ""
	}
}

// hashed wants that many artifacts, whose SHA-256 the job has printed.
func hashed(artifacts int) func(int, job.Result) string {
	return func(_ int, r job.Result) string {
		if len(r.Artifacts) != artifacts {
			return fmt.Sprintf("%d artifacts, want %d", len(r.Artifacts), artifacts)
		}
		for _, a := range r.Artifacts {
			if !strings.Contains(r.Stdout, a.SHA256) {
				return fmt.Sprintf("artifact %q has another content than the job wrote", a.Name)
			}
		}
		return ""
	}
}
