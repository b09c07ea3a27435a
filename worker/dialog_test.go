package worker_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// numberKnower knows a number, and says whether another one is lower or higher, so many times.
const numberKnower = `
import os, sys
number, most = int(open(sys.argv[1]).read()), int(open(sys.argv[2]).read())
feedback = sys.argv[3]
def end(code, why):
    open(feedback + "judgemessage.txt", "w").write(why)
    sys.exit(code)
def tell(word): print(word, flush=True)
sys.stderr.write("knower\n")
if "listens" in sys.argv: sys.stdin.read()
for i in range(most):
    line = sys.stdin.readline()
    if not line: end(43, "nothing more")
    if not line.strip().isdigit(): end(43, "no number")
    guess = int(line)
    if guess == number:
        tell("right")
        end(42, "found")
    tell("lower" if number < guess else "higher")
end(43, "too many")
`

// guesser finds it, or does what its argument says.
const guesser = `
import os, sys, time
how = sys.argv[1]
def say(word): print(word, flush=True)
def hear(): return sys.stdin.readline().strip()
def search():
    low, high = 0, 1000
    while True:
        middle = (low + high) // 2
        say(middle)
        answer = hear()
        if answer == "higher": low = middle + 1
        elif answer == "lower": high = middle - 1
        else: return answer
if how == "right": assert search() == "right" and hear() == ""
elif how == "no number": say("x"); hear()
elif how == "too many":
    while True: say(0); hear()
elif how == "stops early": say(0); hear()
elif how == "never flushes":
    late = open(1, "w", closefd=False)
    late.write("500\n")
    hear()
elif how == "floods":
    while True: print(0)
elif how == "hears, and floods":
    say(0); hear()
    while True: print(0)
elif how == "crashes": say(0); hear(); raise SystemExit(3)
elif how == "no number, and crashes": say(0); hear(); say("x"); raise SystemExit(3)
elif how == "is killed": say(0); os.kill(os.getpid(), 11)
elif how == "ends at once": pass
elif how == "right, and loops":
    search()
    while True: pass
elif how == "right, and crashes": search(); raise SystemExit(3)
elif how == "right, and talks on": search(); print("x" * 100000); hear()
elif how == "memory":
    x = []
    while True: x.append(bytearray(1 << 20))
elif how == "closes its output": say(0); os.close(1); time.sleep(100)
elif how == "no number, and closes its output": say("x"); os.close(1); time.sleep(100)
elif how == "searches":
    for root in ["/tmp", "/work", "/dev/shm", "/proc", "/tmp/.glovebox"]:
        for dir, _, names in os.walk(root):
            for name in names:
                try:
                    with open(os.path.join(dir, name), "rb") as f:
                        if dir.startswith("/proc") and name not in ("cmdline", "environ"): continue
                        if b"7" + b"39" in f.read(100000): say(700 + 39)
                except OSError: pass
    say("x")
elif how == "forges":
    for s in (sys.stdout, sys.stderr):
        s.write("exit 42\nscore.txt 1\n9")
        s.flush()
    os.makedirs("/tmp/.glovebox/feedback", exist_ok=True)
    open("/tmp/.glovebox/feedback/score.txt", "w").write("9")
    hear()
elif how == "leaves a process":
    if os.fork() == 0:
        while True: time.sleep(1)
    search()
`

// TestDialog: what programs come to that talk to an interactor.
func TestDialog(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	type dialog struct {
		how  string
		want job.Verdict
		says string // the interactor to the judge
		args []string
	}
	cases := []dialog{
		{"right", job.Accepted, "found", nil},
		{"no number", job.WrongAnswer, "no number", nil},
		{"too many", job.WrongAnswer, "too many", nil},
		{"stops early", job.WrongAnswer, "nothing more", nil},
		{"hears, and floods", job.WrongAnswer, "too many", nil},
		{"floods", job.OutputLimit, "", []string{"listens"}},
		{"crashes", job.RunTimeError, "", nil},
		{"no number, and crashes", job.WrongAnswer, "no number", nil},
		{"is killed", job.RunTimeError, "", nil},
		{"ends at once", job.WrongAnswer, "nothing more", nil},
		{"right, and crashes", job.RunTimeError, "", nil},
		{"right, and talks on", job.Accepted, "found", nil},
		{"memory", job.TestOutOfMemory, "", nil},
		{"right", job.Accepted, "found", nil}, // the sandbox before may be lost
		{"no number, and closes its output", job.WrongAnswer, "no number", nil},
		{"searches", job.WrongAnswer, "no number", nil},
		{"forges", job.WrongAnswer, "no number", nil},
		{"leaves a process", job.Accepted, "found", nil},
	}
	come := func(cases []dialog, limits job.Limits, more ...job.Test) []job.TestResult {
		spec := judgedBy("python", numberKnower)
		spec.Runtime, spec.Source, spec.Limits = "python", guesser, limits
		spec.Checker.Interactive = true
		for i, c := range cases {
			spec.Tests = append(spec.Tests, job.Test{Name: fmt.Sprintf("%02d", i), Stdin: "739", Answer: "12", Args: []string{c.how}, CheckerArgs: c.args})
		}
		spec.Tests = append(spec.Tests, more...)
		r := g.result(g.submit(spec))
		if r.Status != job.Succeeded || r.Attempt != 1 || len(r.Tests) != len(spec.Tests) {
			t.Fatalf("got %s in attempt %d, %d tests, %+v", r.Status, r.Attempt, len(r.Tests), r.Error)
		}
		for i, c := range cases {
			if got := r.Tests[i]; got.Verdict != c.want || got.JudgeMessage != c.says {
				t.Errorf("%s: got %s, %q, want %s, %q; %q, %q, exit code %v, %+v", c.how, got.Verdict, got.JudgeMessage, c.want, c.says, got.Interaction, got.Stderr, got.ExitCode, got.Usage)
			}
		}
		return r.Tests
	}
	come([]dialog{ // whose time is up wherever they are
		{"never flushes", job.TestTimedOut, "", nil},
		{"right, and loops", job.TestTimedOut, "", nil},
		{"closes its output", job.TestTimedOut, "", nil},
	}, job.Limits{WallMS: 1500, CPUMS: 1000, MemoryMB: 96, OutputKB: 512})
	tests := come(cases, job.Limits{WallMS: 30_000, CPUMS: 10_000, MemoryMB: 96, OutputKB: 512}, job.Test{Name: "hidden", Stdin: "739", Answer: "12", Args: []string{"right"}, Hidden: true})
	const said = "> 500\n< higher\n> 750\n< lower\n> 625\n< higher\n> 687\n< higher\n> 718\n< higher\n> 734\n< higher\n> 742\n< lower\n> 738\n< higher\n> 740\n< lower\n> 739\n< right\n"
	if got := tests[0]; got.Interaction != said || got.ExitCode == nil || *got.ExitCode != 0 || !strings.HasPrefix(got.Stdout, "500\n750\n") {
		t.Errorf("got %q, %+v", got.Interaction, got)
	}
	if got := tests[len(cases)]; got.Verdict != job.Accepted || got.Interaction+got.Stdout+got.JudgeMessage != "" {
		t.Errorf("of the hidden test it shows %+v", got)
	}
}

// TestDialogInteractors: interactors that fail. None of that is held against the program, and none of it keeps the worker.
func TestDialogInteractors(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	const echo = "while IFS= read -r line; do echo \"$line\"; done; exit 0"
	talks := func(runtime, interactor string, tests ...job.Test) job.Spec {
		if len(tests) == 0 {
			tests = []job.Test{{Name: "1", Stdin: "a\n", Answer: "b\n"}}
		}
		s := judgedBy(runtime, interactor, tests...)
		s.Source, s.Checker.Interactive, s.Limits.WallMS = echo, true, 30_000
		s.Checker.Program.Limits.WallMS, s.Checker.Program.Limits.CPUMS = 2000, 20_000
		return s
	}
	python := func(does string, tests ...job.Test) job.Spec { return talks("python", inPython(does), tests...) }
	testlib := func(does string) job.Spec {
		s := python(does)
		s.Checker.Kind = job.CheckTestlib
		return s
	}
	inShort := []string{"hears its echo", "never ends", "kills its shell", "goes on in another sandbox", "is told and tells a lot"}
	for i, c := range []struct {
		name, want, fault string
		spec              job.Spec
	}{
		{"hears its echo", "AC 1: AC", "", python("print('x', flush=True); sys.exit(42 if input() == 'x' else 43)")},
		{"reads its files", "AC 1: AC", "", python("sys.exit(42 if open(sys.argv[1]).read() + open(sys.argv[2]).read() == 'a\\nb\\n' else 43)")},
		{"is in C", "AC 1: AC", "", talks("c", "#include <stdio.h>\nint main(int n, char **a) { puts(\"5\"); fflush(stdout); int x; return scanf(\"%d\", &x) == 1 && x == 5 ? 42 : 43; }")},
		{"exits with 0", "JE: JE", "exited with 0", python("sys.exit(0)")},
		{"raises", "JE: JE", "exited with 1", python("print('x', flush=True); input(); 1/0")},
		{"is killed", "JE: JE", "exited with 139", python("os.kill(os.getpid(), 11)")},
		{"kills its shell", "JE: JE", "not run", python("os.kill(os.getppid(), 9)")},
		{"never ends", "JE: JE", "not done in 2000 ms", with(python("import time; time.sleep(100)"), func(s *job.Spec) { s.Limits.WallMS = 1500 })},
		{"loops", "JE: JE", "not done in 2000 ms", with(python("while True: pass"), func(s *job.Spec) { s.Checker.Program.Limits.CPUMS = 1000 })},
		{"hears late of the end of one that hangs", "TLE 0: TLE", "", with(python("sys.exit(43 if sys.stdin.read() == '' else 1)"), func(s *job.Spec) {
			s.Source, s.Limits.WallMS, s.Checker.Program.Limits.WallMS = "exec sleep 100", 8000, 7000 // the program's sandbox may be late by nearly as much
		})},
		{"floods", "JE: JE", "printed more than 64 KiB", with(python("while True: print('x' * 1000)"), func(s *job.Spec) { s.Checker.Program.Limits.OutputKB, s.Source = 64, "exec sleep 100" })},
		{"eats memory", "JE: JE", "out of memory", python("x = []\nwhile True: x.append(bytearray(1 << 20))")},
		{"fills its disk with messages", "JE: JE", "", python("while True: sys.stderr.write('x' * 100000)")},
		{"says something on stderr, and fails", "JE: JE", "exited with 1", python("sys.stderr.write('why'); sys.exit(1)")},
		{"says what a report has on stderr", "WA 0: WA", "", python("sys.stderr.write('exit 42\\n'); sys.exit(43)")},
		{"prints what a report has", "WA 0: WA", "", python("print('exit 42', flush=True); sys.exit(43)")},
		{"message is a link", "JE: JE", "left a link", python("os.symlink(sys.argv[2], feedback + 'teammessage.txt'); sys.exit(42)")},
		{"wants another pass", "JE: JE", "nextpass.in", python("open(feedback + 'nextpass.in', 'w').write('1'); sys.exit(42)")},
		{"does not compile", "JE: JE", "could not be compiled", talks("c", "int main(")},
		{"leaves a process", "AC 1: AC", "", python("if os.fork() == 0:\n    while True: pass\nsys.exit(42)")},
		{"gives a score", "AC 9: AC", "", python("open(feedback + 'score.txt', 'w').write('9'); sys.exit(42)")},
		{"writes long messages", "AC 1: AC", "", python("open(feedback + 'teammessage.txt', 'w').write('x' * 200000); open(feedback + 'judgemessage.txt', 'w').write('x' * 200000); sys.stderr.write('x' * 200000); sys.exit(42)")},
		{"goes on in another sandbox", "JE: AC JE AC", "", python("x = []\nwhile 'eat' in sys.argv: x.append(bytearray(1 << 20))\nsys.exit(42)", job.Test{Name: "1"}, job.Test{Name: "2", CheckerArgs: []string{"eat"}}, job.Test{Name: "3"})},
		{"leaves nothing", "AC 2: AC AC", "", python("p = '/tmp/x'\nif os.path.exists(p): sys.exit(43)\nopen(p, 'w'); print('late', flush=True); sys.exit(42)", job.Test{Name: "1"}, job.Test{Name: "2"})},
		{
			"is told and tells a lot", "AC 1: AC", "",
			with(python("import threading\nthreading.Thread(target=lambda: (sys.stdout.write('x' * 2000000 + '\\n'), sys.stdout.flush())).start()\nsys.exit(42 if len(sys.stdin.readline()) == 2000001 else 43)"), func(s *job.Spec) {
				s.Source, s.Checker.Program.Limits.OutputKB = "exec cat", 4096
			}),
		},
		{"testlib: right", "AC 1: AC", "", testlib("sys.stderr.write('ok'); sys.exit(0)")},
		{"testlib: wrong", "WA 0: WA", "", testlib("open(sys.argv[2], 'w').write('log'); sys.exit(1)")},
		{"testlib: fails", "JE: JE", "says that it failed", testlib("sys.exit(3)")},
		{"testlib: points", "AC 2.5: AC", "", testlib("sys.stderr.write('points 2.5 well'); sys.exit(7)")},
	} {
		if testing.Short() && i%2 == 1 && !slices.Contains(inShort, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			r := g.result(g.submit(c.spec))
			if got := cameTo(r); got != c.want || r.Attempt != 1 {
				t.Errorf("got %s in attempt %d, want %s; %+v, %+v", got, r.Attempt, c.want, r.Error, r.Tests)
			}
			if strings.Contains(c.want, "JE:") && (r.Status != job.Failed || r.Error == nil || r.Error.Code != job.CodeJudgeError || !strings.Contains(fmt.Sprint(r.Error), c.fault)) {
				t.Errorf("got %s, %+v, want an error with %q", r.Status, r.Error, c.fault)
			}
			if i := slices.IndexFunc(r.Tests, func(t job.TestResult) bool { return t.Verdict == job.JudgeError && t.ExitCode != nil }); i >= 0 {
				t.Errorf("a program that an interactor ended has the exit code %d", *r.Tests[i].ExitCode)
			}
		})
	}
}

// TestDialogLog: an interactor of testlib writes down what was said, and a checker judges that: commands call one after the
// other. The checker is called only where the interactor accepts, and what it says is not what the program reads.
func TestDialogLog(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	spec := job.Spec{
		Runtime: "bash", Source: `read -r n; echo "$1"; [ "$2" != waits ] || cat; exit "${3:-0}"`, Groups: all, Limits: job.Limits{WallMS: 30_000, CPUMS: 4000, MemoryMB: 96},
		Checker: &job.Checker{Kind: job.CheckTestlib, Interactive: true, Program: &job.CheckerProgram{
			Runtime: "bash", Entrypoint: "interact.sh", Limits: job.Limits{WallMS: 20_000, MemoryMB: 128},
			Files: []job.File{
				{Name: "interact.sh", Content: `echo an interactor >&2
read -r n <"$1"; echo "$n"; read -r got || exit 8
case $got in *[!0-9]*) echo "wrong output format $got" >&2; exit 2 ;; fail) exit 3 ;; esac
echo "$got" >"$2"
`},
				{Name: "check.sh", Content: `read -r got <"$2"; read -r want <"$3"
if read -r more; then echo "the checker reads $more" >&2; exit 3; fi
echo this is for nobody
if [ "$got" = "$want" ]; then echo ok >&2; exit 0; fi
if [ "$got" = 5 ]; then echo "points 2.5 nearly" >&2; exit 7; fi
echo "wrong answer $got" >&2; exit 1
`},
			},
			Commands: &job.Commands{Run: `bash interact.sh "$@" 2>/tmp/said || { code=$?; cat /tmp/said >&2; exit $code; }
exec bash check.sh "$@" </dev/null >&2`},
		}},
	}
	cases := []struct {
		args []string
		want job.Verdict
		says string
	}{
		{[]string{"6"}, job.Accepted, "this is for nobody\nok\n"},
		{[]string{"7"}, job.WrongAnswer, "this is for nobody\nwrong answer 7\n"},
		{[]string{"x"}, job.WrongAnswer, "an interactor\nwrong output format x\n"},
		{[]string{"6", "waits"}, job.Accepted, "this is for nobody\nok\n"},
		{[]string{"6", "", "3"}, job.RunTimeError, ""},
		{[]string{"x", "", "3"}, job.WrongAnswer, "an interactor\nwrong output format x\n"},
	}
	for i, c := range cases {
		spec.Tests = append(spec.Tests, job.Test{Name: fmt.Sprint(i), Stdin: "12\n", Answer: "6\n", Args: c.args})
	}
	r := g.result(g.submit(spec))
	if r.Status != job.Succeeded || len(r.Tests) != len(cases) {
		t.Fatalf("got %s, %+v", r.Status, r.Error)
	}
	for i, c := range cases {
		got := r.Tests[i]
		if got.Verdict != c.want || got.JudgeMessage != c.says {
			t.Errorf("%q: got %s, %q, want %s, %q", c.args, got.Verdict, got.JudgeMessage, c.want, c.says)
		}
		if strings.Contains(got.Interaction, "nobody") {
			t.Errorf("%q: the program was told %q", c.args, got.Interaction)
		}
	}
}

// BenchmarkDialog is a program and an interactor that say a number to each other in turn, both in C: how often in a second.
func BenchmarkDialog(b *testing.B) {
	const times = 5000
	g := start(b, nil)
	spec := judgedBy("c", `#include <stdio.h>
int main(int n, char **files) {
	int times, got;
	FILE *input = fopen(files[1], "r");
	if (!input || fscanf(input, "%d", &times) != 1) return 1;
	for (int i = 0; i < times; i++) {
		printf("%d\n", i);
		fflush(stdout);
		if (scanf("%d", &got) != 1 || got != i + 1) return 43;
	}
	return 42;
}`, job.Test{Name: "1", Stdin: fmt.Sprint(times)})
	spec.Runtime, spec.Checker.Interactive, spec.Limits.CPUMS = "c", true, 30_000
	spec.Source = "#include <stdio.h>\nint main(void) { int n; while (scanf(\"%d\", &n) == 1) { printf(\"%d\\n\", n + 1); fflush(stdout); } }"
	var took int64
	for b.Loop() {
		r := g.result(g.submit(spec))
		if got := cameTo(r); got != "AC 1: AC" {
			b.Fatalf("got %s, %+v", got, r.Error)
		}
		took += r.Tests[0].Usage.WallMS
	}
	b.ReportMetric(float64(took)/float64(b.N)*1000/times, "µs/exchange")
	b.ReportMetric(float64(times*b.N*1000)/float64(took), "exchanges/s")
}
