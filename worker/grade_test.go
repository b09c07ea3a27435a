package worker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
)

// doubles are programs that read a number and print its double, unless a word beside it says what else to do.
var doubles = map[string]string{
	"python": `
import sys, os, time
n, *what = sys.stdin.read().split()
what = what[0] if what else ""
if what == "loop":
    while True: pass
if what == "sleep": time.sleep(60)
if what == "flood":
    while True: print("x" * 1000)
if what == "memory":
    x = []
    while True: x.append(bytearray(1 << 20))
print(2 * int(n) if what != "wrong" else "no")
sys.stdout.flush()
if what == "exit": sys.exit(3)
if what == "abort": os.abort()
`,
	"bash": `
read n what
case $what in
loop) while :; do :; done ;;
sleep) sleep 60 ;;
flood) yes ;;
memory) cat /dev/zero > /dev/shm/x; cat /dev/zero > /dev/shm/y; sleep 60 ;; # full, they are over the limit together with bash itself
wrong) echo no; exit ;;
esac
echo $((2 * n))
case $what in
exit) exit 3 ;;
abort) kill -ABRT $$ ;;
esac
`,
	"c": `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
	int n = 0;
	char what[99] = "";
	scanf("%d %90s", &n, what);
	if (!strcmp(what, "loop")) for (;;) ;
	if (!strcmp(what, "sleep")) sleep(60);
	if (!strcmp(what, "flood")) for (;;) puts("xxxxxxxxxxxxx");
	if (!strcmp(what, "memory")) for (;;) { char *p = malloc(1 << 20); if (p) memset(p, 1, 1 << 20); }
	if (!strcmp(what, "wrong")) puts("no"); else printf("%d\n", 2 * n);
	fflush(stdout);
	if (!strcmp(what, "exit")) return 3;
	if (!strcmp(what, "abort")) abort();
}`,
}

// TestGrade: each verdict, in the order in which they are looked at, of one compile and one sandbox.
func TestGrade(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	want := map[string]job.Verdict{
		"": job.Accepted, "wrong": job.WrongAnswer, "loop": job.TestTimedOut, "sleep": job.TestTimedOut, "flood": job.OutputLimit,
		"memory": job.TestOutOfMemory, "exit": job.RunTimeError, "abort": job.RunTimeError,
	}
	order := []string{"", "wrong", "loop", "", "sleep", "flood", "memory", "", "exit", "abort", ""}
	one := 1.0
	for runtime, source := range doubles {
		t.Run(runtime, func(t *testing.T) {
			spec := job.Spec{Runtime: runtime, Source: source, Limits: job.Limits{WallMS: 8_000, CPUMS: 2_000, MemoryMB: 128, OutputKB: 16}}
			for i, what := range order {
				spec.Tests = append(spec.Tests, job.Test{
					Name: fmt.Sprintf("%02d", i), Stdin: fmt.Sprintln(i, what), Answer: fmt.Sprintln(2 * i), Points: &one, Hint: "hint", Hidden: i%3 == 2,
				})
			}
			r := g.result(g.submit(spec))
			if r.Status != job.Succeeded || r.Verdict != job.WrongAnswer || r.Score == nil || *r.Score != 4 || *r.MaxScore != 11 || r.ExitCode != nil || len(r.Tests) != len(order) {
				t.Fatalf("got %+v, compile step %+v, score %v, %d tests, error %v", r, r.Compile, r.Score, len(r.Tests), r.Error)
			}
			if r.Stdout+r.Stderr != "" || len(r.Artifacts) > 0 || r.Usage.CPUMS <= 0 || (r.Compile != nil) != (runtime == "c") {
				t.Errorf("got %+v", r)
			}
			for i, what := range order {
				test := r.Tests[i]
				if test.Verdict != want[what] || test.Usage == nil || test.Usage.MemoryPeakBytes <= 0 || (what == "sleep") != (test.Reruns > 0) && what != "" && what != "loop" && what != "flood" && what != "memory" {
					t.Errorf("%d %s: got %+v, %+v, want %s", i, what, test, test.Usage, want[what])
				}
				concealed := i >= 2 // the first hidden one, and those after it
				if test.Hidden != (i%3 == 2) || concealed && (test.Stdout+test.Stderr != "" || test.Difference != nil || test.ExitCode != nil || test.Signal != "") {
					t.Errorf("%d %s: shows %+v", i, what, test)
				}
				if (test.Feedback == "hint") != (what != "") {
					t.Errorf("%d %s: says %q", i, what, test.Feedback)
				}
				if concealed && (test.Usage.MemoryPeakBytes%(1<<20) != 0 || test.Usage.CPUMS%10+test.Usage.WallMS%10 != 0) {
					t.Errorf("%d %s: shows its usage exactly: %+v", i, what, test.Usage)
				}
				if what == "wrong" && !concealed && !cmp.Equal(test.Difference, &job.Difference{Line: 1, Column: 1, Want: fmt.Sprint(2 * i), Got: "no"}) {
					t.Errorf("%d %s: got the difference %+v", i, what, test.Difference)
				}
				if what == "" && !concealed && (test.Stdout != fmt.Sprintln(2*i) || *test.ExitCode != 0) {
					t.Errorf("%d: got %+v", i, test)
				}
			}
		})
	}
}

// TestGradeWhole: compile steps that fail, groups, checkers, answers that can't be used, uploads and attestations.
func TestGradeWhole(t *testing.T) {
	t.Parallel()
	signer, err := attest.NewSigner(attest.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	g := start(t, func(c *worker.Config) { c.Signer = signer })
	upload := func(content string) string {
		digest, _ := g.upload([]byte(content))
		return digest
	}
	long := strings.Repeat("0123456789\n", 30_000) // more than a capture holds in memory
	cat := func(name, group, in, answer string) job.Test {
		return job.Test{Name: name, Group: group, Stdin: in, Answer: answer}
	}
	one, ten := 1.0, 10.0
	for _, c := range []struct {
		name string
		spec job.Spec
		want string // verdict, score, and the tests' verdicts
		code string // of the error
	}{
		{"accepted", job.Spec{Source: "cat", Tests: []job.Test{cat("1", "", "a", "a"), cat("2", "", "b", "b")}}, "succeeded accepted 2/2: accepted accepted", ""},
		{"stops at the first", job.Spec{Source: "cat", Tests: []job.Test{cat("1", "", "a", "b"), cat("2", "", "b", "b")}}, "succeeded wrong_answer 0/2: wrong_answer skipped", ""},
		{"bytes", job.Spec{Source: "cat", Checker: &job.Checker{Kind: "exact"}, Tests: []job.Test{{Name: "1", StdinBase64: "AP8K", AnswerBase64: "AP8K"}}}, "succeeded accepted 1/1: accepted", ""},
		{"uploads", job.Spec{Source: "cat; exit", Tests: []job.Test{{Name: "1", StdinUpload: upload(long), AnswerUpload: upload(long)}}}, "succeeded accepted 1/1: accepted", ""},
		{"arguments", job.Spec{Source: `echo "$@"`, Args: []string{"a"}, Tests: []job.Test{{Name: "1", Args: []string{"b c", "d"}, Answer: "a b c d"}, {Name: "2", Answer: "a"}}}, "succeeded accepted 2/2: accepted accepted", ""},
		{"arguments of a test", job.Spec{Source: "echo A 1.01", Checker: &job.Checker{Args: []string{"float_tolerance", "1e-9"}}, Tests: []job.Test{
			{Name: "1", Answer: "a 1", CheckerArgs: []string{"float_tolerance", "0.1"}, Points: &one},
			{Name: "2", Answer: "A 1.01", CheckerArgs: []string{"case_sensitive"}, Points: &one},
			{Name: "3", Answer: "a 1.01", CheckerArgs: []string{"case_sensitive"}, Points: &one},
			{Name: "4", Answer: "a 1", Points: &one},
		}}, "succeeded wrong_answer 2/4: accepted accepted wrong_answer wrong_answer", ""},
		{"tolerance", job.Spec{Source: "echo 1.0000001", Checker: &job.Checker{Args: []string{"float_tolerance", "1e-6"}}, Tests: []job.Test{{Name: "1", Answer: "1"}}}, "succeeded accepted 1/1: accepted", ""},
		{"no output", job.Spec{Source: "exit 0", Tests: []job.Test{cat("1", "", "", "a")}}, "succeeded wrong_answer 0/1: wrong_answer", ""},
		{
			"groups",
			job.Spec{
				Source: "cat", Tests: []job.Test{cat("1", "a", "x", "x"), cat("2", "b", "x", "y"), cat("3", "b", "x", "x"), cat("4", "c", "x", "x"), cat("5", "d", "x", "x")},
				Groups: []job.Group{{Name: "b", OnReject: "break", Score: "min", MaxScore: &ten}, {Name: "c", RequirePass: []string{"b"}}, {Name: "d", RequirePass: []string{"a"}, AcceptScore: &ten}},
			},
			"succeeded wrong_answer 11/22: accepted wrong_answer skipped skipped accepted", "",
		},
		{"an answer that is none", job.Spec{Source: "cat", Checker: &job.Checker{Kind: "regex"}, Tests: []job.Test{{Name: "1", Answer: "(", Points: &one}, {Name: "2", Points: &one}}}, "failed judge_error: judge_error accepted", "judge_error"},
		{"does not compile", job.Spec{Runtime: "c", Source: "int main(", Tests: []job.Test{cat("1", "", "", "")}}, "compile_failed compile_failed 0/1: skipped", ""},
		{"an upload that is gone", job.Spec{Source: "cat", Groups: []job.Group{{OnReject: "continue"}}, Tests: []job.Test{
			cat("1", "", "a", "a"), {Name: "2", StdinUpload: strings.Repeat("0", 64)}, {Name: "3", AnswerUpload: strings.Repeat("0", 64), Hidden: true}, cat("4", "", "a", "b"),
		}}, "failed judge_error: accepted judge_error judge_error wrong_answer", "input_gone"},
		{"a hidden upload that is gone", job.Spec{Source: "cat", Tests: []job.Test{{Name: "1", AnswerUpload: strings.Repeat("0", 64), Hidden: true}}}, "failed judge_error: judge_error", "input_gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.spec.Runtime == "" {
				c.spec.Runtime = "bash"
			}
			c.spec = ample(c.spec) // as it is submitted
			r := g.result(g.submit(c.spec))
			got := fmt.Sprintf("%s %s", r.Status, r.Verdict)
			if r.Score != nil {
				got += fmt.Sprintf(" %g/%g", *r.Score, *r.MaxScore)
			}
			for i, test := range r.Tests {
				if i == 0 {
					got += ":"
				}
				got += " " + string(test.Verdict)
			}
			code := ""
			if r.Error != nil {
				code = r.Error.Code
			}
			if code != c.code {
				t.Errorf("got the error %+v, want the code %q", r.Error, c.code)
			}
			if got != c.want || r.Attempt != 1 {
				t.Errorf("got %s, want %s; %+v", got, c.want, r.Error)
			}
			if b := fmt.Sprintf("%+v %+v", r, r.Error); strings.Contains(b, strings.Repeat("0", 64)) != strings.HasPrefix(c.name, "an upload") {
				t.Errorf("the digest of an answer that is hidden is shown, or one that is not is not: %s", b)
			}
			keys, err := g.records.Fleet.Keys(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			v, err := attest.Verify(r, keys)
			if err != nil {
				t.Fatal(err)
			}
			if want, err := attest.InputHash(c.spec); err != nil || v.Statement.Predicate.InputHash != want {
				t.Errorf("the input hash is %s, of the spec it is %s, %v", v.Statement.Predicate.InputHash, want, err)
			}
		})
	}
}

// TestGradeUnfit: a program whose files can't be laid out for a test does not compile; it is no internal error.
func TestGradeUnfit(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	many := job.Spec{Runtime: "bash", Source: "cat", Tests: []job.Test{{Name: "1"}, {Name: "2"}}, Groups: []job.Group{{Name: "g", Verdict: "always"}}}
	for i := range 201 {
		many.Files = append(many.Files, job.File{Name: fmt.Sprintf("%d/a/b/c/d", i)})
	}
	leaves := func(sockets string) job.Spec {
		source := "from socket import *\n" + sockets + "\nsend_fds(a, [b'x'], [s.fileno() for s in (a, b, *more)])\nsend_fds(b, [b'x'], [s.fileno() for s in (a, b, *more)])\n"
		return job.Spec{
			Runtime: "python", Source: source, Commands: &job.Commands{Compile: "python3 main.py", Run: "cat"},
			Tests: []job.Test{{Name: "1"}, {Name: "2"}},
		}
	}
	const sockets = "the compile step leaves sockets behind\n"
	for _, c := range []struct {
		name, say string
		spec      job.Spec
	}{
		{"datagram sockets in a circle", sockets, leaves("a, b = socketpair(AF_UNIX, SOCK_DGRAM); more = []")},
		{"a socket with an abstract name", sockets, leaves("c = socket(AF_UNIX, SOCK_DGRAM); c.bind('\\0box'); a, b = socketpair(); more = [c]")},
		{"sockets of other protocols", sockets, leaves("u = socket(AF_INET, SOCK_DGRAM); u.bind(('127.0.0.1', 4000)); l = socket(); l.bind(('127.0.0.1', 4001)); l.listen(); a, b = socketpair(); more = [u, l]")},
		{"too many files", "the program has more than 1000 files and directories\n", many},
		{"files that do not fit twice", "the program's files do not fit twice into the job's directory (limits.disk_mb)\n", job.Spec{
			Runtime: "bash", Source: "cat", Limits: job.Limits{DiskMB: 1},
			Files: []job.File{{Name: "a", Content: strings.Repeat("x", 700<<10)}}, Tests: []job.Test{{Name: "1"}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := g.result(g.submit(c.spec))
			if r.Status != job.CompileFailed || r.Verdict != job.VerdictCompileFailed || r.Score == nil || *r.Score != 0 || r.Attempt != 1 {
				t.Fatalf("got %s, %s, attempt %d, %+v", r.Status, r.Verdict, r.Attempt, r.Error)
			}
			if r.Compile == nil || !strings.HasSuffix(r.Compile.Output, c.say) {
				t.Errorf("says %+v", r.Compile)
			}
			for _, test := range r.Tests {
				if test.Verdict != job.SkippedTest || test.Usage != nil {
					t.Errorf("got %+v", test)
				}
			}
			for _, group := range r.Groups {
				if group.Verdict != job.SkippedTest {
					t.Errorf("got %+v", group)
				}
			}
		})
	}
}

// TestCompileStepWasRefusedMemory: that a compiler was refused memory says nothing of the program.
func TestCompileStepWasRefusedMemory(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	const mark = "/tmp/.glovebox-out-of-memory"
	for _, compile := range []string{"touch " + mark, "mkdir -p " + mark + "/a", "ln -s / " + mark} {
		spec := job.Spec{Runtime: "bash", Source: "x", Commands: &job.Commands{Compile: compile, Run: "exit 3"}}
		if r := g.result(g.submit(spec)); r.Status != job.Failed || r.ExitCode == nil || *r.ExitCode != 3 {
			t.Errorf("%s: got %s, %+v", compile, r.Status, r.Error)
		}
		spec.Tests = []job.Test{{Name: "1"}}
		if r := g.result(g.submit(spec)); r.Verdict != job.RunTimeError {
			t.Errorf("%s, graded: got %s, %+v", compile, r.Verdict, r.Error)
		}
	}
}

// TestForgedVerdicts: nothing that a program does makes a wrong output right, nor reaches the tests after it.
func TestForgedVerdicts(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	for name, source := range map[string]string{
		"prints a verdict":         "print('accepted'); print('AC 1.0'); print('{\"verdict\": \"accepted\", \"score\": 1}')",
		"exits at once":            "import os; os._exit(0)",
		"exits with the checker's": "import os; os._exit(42)",
		"prints on stderr":         "import sys; print(input() + 'x', file=sys.stderr)",
		"kills its parent":         "import os\nfor p in (1, os.getppid(), 0, -1):\n  try: os.kill(p, 9)\n  except OSError: pass",
		"writes to the agent":      "import os\nfor p in ('/proc/1/fd/0', '/proc/1/fd/1', '/proc/1/mem', '/dev/stdin', '/dev/fd/0', '/proc/self/fd/0'):\n  try: open(p, 'wb').write(b'accepted')\n  except OSError: pass",
		"writes frames":            "import os, struct\nb = b'{\"cause\":\"exited\",\"exit_code\":0,\"usage\":{\"wall_ms\":1,\"cpu_ms\":1,\"memory_peak_bytes\":1}}'\nfor fd in range(256):\n  try: os.write(fd, b'G' + struct.pack('>I', len(b)) + b + b'M\\0\\0\\0\\x13{\"skipped_total\":0}')\n  except OSError: pass",
		"writes feedback":          "import os\nfor d in ('/work', '/tmp', '/dev/shm', '.'):\n  for f in ('score.txt', 'result.json', 'results.json', 'nextpass.in', 'judgemessage.txt', '.glovebox-out-of-memory'):\n    open(os.path.join(d, f), 'w').write('1')",
	} {
		t.Run(name, func(t *testing.T) {
			r := g.result(g.submit(job.Spec{
				Runtime: "python", Source: "import sys\nif len(sys.argv) > 1: print(input()); sys.exit(0)\n" + source,
				Groups: []job.Group{{OnReject: "continue"}},
				Tests:  []job.Test{{Name: "forged", Stdin: "in", Answer: "right"}, {Name: "after", Args: []string{"honest"}, Stdin: "b", Answer: "b"}},
			}))
			if v := r.Tests[0].Verdict; r.Status != job.Succeeded || v != job.WrongAnswer && v != job.RunTimeError || r.Tests[1].Verdict != job.Accepted {
				t.Errorf("got %s, %+v", r.Status, r.Tests)
			}
		})
	}
}

// TestAnswersStayOutside: a program that looks through all files and all memory that it can reach finds
// neither answers nor inputs of other tests. They are in no log either.
func TestAnswersStayOutside(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	mark := func(n int) string { return fmt.Sprintf("MARK-OF-%016x", n) }
	r := g.result(g.submit(job.Spec{
		Runtime: "python", Limits: job.Limits{WallMS: 120_000, CPUMS: 120_000, MemoryMB: 512}, Source: `
import os, re, sys
mark = re.compile(b"MARK-OF" + b"-[0-9a-f]{16}")
found = set()
def look(f, where, most=1 << 28):
    tail, read = b"", 0
    while read < most and (b := f.read(1 << 20)):
        for m in mark.findall(tail + b): found.add((m.decode(), where))
        tail, read = b[-64:], read + len(b)
own = sys.stdin.read()
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline", "maps", "stat"):
        try: look(open(f"/proc/{pid}/{name}", "rb", buffering=0), name)
        except OSError: pass
    try:
        f = open(f"/proc/{pid}/mem", "rb", buffering=0)
        for line in open(f"/proc/{pid}/maps"):
            start, end = (int(x, 16) for x in line.split()[0].split("-"))
            try: f.seek(start); look(f, "memory", end - start)
            except (OSError, OverflowError): pass
    except OSError: pass
    try: fds = os.listdir(f"/proc/{pid}/fd")
    except OSError: fds = []
    for fd in fds:
        try:
            path = f"/proc/{pid}/fd/{fd}"
            if os.path.isfile(path): look(open(path, "rb", buffering=0), "descriptor")
        except OSError: pass
for top, dirs, files in os.walk("/"):
    if top == "/": dirs[:] = [d for d in dirs if d not in ("proc", "sys", "usr")] # usr is the image, read-only
    for f in files:
        path = os.path.join(top, f)
        if not os.path.isfile(path) or os.path.islink(path): continue
        try: look(open(path, "rb"), "file " + path, 1 << 22)
        except OSError: pass
print((own, "memory") in found, sorted(x for x in found if x[0] != own))
`,
		Groups: []job.Group{{OnReject: "continue"}}, Checker: &job.Checker{Kind: job.CheckRegex},
		Tests: []job.Test{
			{Name: "1", Stdin: mark(1), Answer: `True \[\]|` + mark(101)},
			{Name: "2", Stdin: mark(2), Answer: `True \[\]|` + mark(102), Hidden: true},
			{Name: "3", Stdin: mark(3), Answer: `True \[\]|` + mark(103)},
		},
	}))
	for _, test := range r.Tests { // it finds its own input, or it would find nothing at all
		if test.Verdict != job.Accepted {
			t.Errorf("test %s: got %s, %q, %q, want nothing found", test.Name, test.Verdict, test.Stdout, test.Stderr)
		}
	}
	if log := g.log.String(); strings.Contains(log, "MARK-OF") {
		t.Errorf("the log has an answer or an input:\n%s", log)
	}
	if b := fmt.Sprintf("%+v", r); strings.Contains(b, mark(2)) || strings.Contains(b, mark(102)) {
		t.Errorf("the result has the input or the answer of a hidden test:\n%s", b)
	}
}
