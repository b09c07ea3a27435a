package worker_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
)

// problem is one to be solved, and submissions to it, each with what it has to come to.
type problem struct {
	name        string
	spec        job.Spec // all but what is submitted
	submissions []submission
}

type submission struct {
	name, runtime, source string
	// want is the status if it is another than succeeded, the verdict, the score and the tests' verdicts, by
	// [short].
	want string
}

// short are the package format's words.
var short = map[job.Verdict]string{
	job.Accepted: "AC", job.WrongAnswer: "WA", job.TestTimedOut: "TLE", job.RunTimeError: "RTE", job.TestOutOfMemory: "MLE",
	job.OutputLimit: "OLE", job.VerdictCompileFailed: "CE", job.JudgeError: "JE", job.SkippedTest: "SC",
}

// cameTo says what a result is, as submission.want does.
func cameTo(r job.Result) string {
	if r.Verdict == "" {
		return fmt.Sprintf("%s, %+v", r.Status, r.Error)
	}
	s := short[r.Verdict]
	if r.Score != nil {
		s += fmt.Sprintf(" %g", *r.Score)
	}
	s += ":"
	for _, test := range r.Tests {
		s += " " + short[test.Verdict]
	}
	return s
}

// all are the tests' verdicts where each is run whatever the others came to.
var all = []job.Group{{OnReject: "continue"}}

// double is the problem that most submissions try to cheat in: read a number, print its double. The first
// test is shown, the others are hidden.
var double = job.Spec{
	Groups: all, Limits: job.Limits{WallMS: 30_000, CPUMS: 10_000, MemoryMB: 96, OutputKB: 64},
	Tests: []job.Test{
		{Name: "sample/1", Stdin: "4\n", Answer: "8\n"},
		{Name: "secret/1", Stdin: "21\n", Answer: "42\n", Hidden: true},
		{Name: "secret/2", Stdin: "1000000\n", Answer: "2000000\n", Hidden: true},
	},
}

// with returns a problem's job with something changed.
func with(s job.Spec, change func(*job.Spec)) job.Spec {
	change(&s)
	return s
}

// driven is double as a function, which a driver calls.
var driven = with(double, func(s *job.Spec) {
	s.Entrypoint, s.Files = "solution.py", []job.File{{Name: "main.py", Content: "from solution import double\nn = int(input())\nprint(double(n))\n"}}
})

// scored is double in two groups of tests.
var scored = job.Spec{
	Limits: double.Limits,
	Groups: []job.Group{
		{Name: "", OnReject: "continue"},
		{Name: "small", Score: "min", OnReject: "break", AcceptScore: ptr(30)},
		{Name: "large", Score: "min", OnReject: "break", AcceptScore: ptr(70), RequirePass: []string{"small"}},
	},
	Tests: []job.Test{
		{Name: "1", Group: "small", Stdin: "1", Answer: "2"},
		{Name: "2", Group: "small", Stdin: "2", Answer: "4"},
		{Name: "3", Group: "large", Stdin: "1000", Answer: "2000"},
		{Name: "4", Group: "large", Stdin: "2000", Answer: "4000"},
	},
}

// text is a problem of one test, whose answer is compared by a checker.
func text(kind, answer string, args ...string) job.Spec {
	return job.Spec{Checker: &job.Checker{Kind: kind, Args: args}, Tests: []job.Test{{Name: "1", Answer: answer}}, Limits: double.Limits}
}

// says is a submission that prints a text as it is.
func says(name, output, want string) submission {
	return submission{name, "python", fmt.Sprintf("import sys; sys.stdout.buffer.write(b'''%s''')", output), want}
}

// inC is the begin of a C program that has read n.
const inC = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n#include <signal.h>\nint main(void) { int n; if (scanf(\"%d\", &n) != 1) return 9; "

// problems are of each kind that is supported. What grows out of shared/grading.md's section 8 and is not
// here has a test of its own: TestForgedVerdicts, TestAnswersStayOutside, TestTestsLeaveNothing,
// internal/grading's tables for what checkers take, TestGradeWhole for answers that can't be used.
var problems = []problem{
	{"double in a second", with(double, func(s *job.Spec) { s.Limits.CPUMS = 1000 }), []submission{ // of programs that take longer wherever they run
		{"does not end", "c", inC + `for (volatile int i = 0; ; i++) ; }`, "TLE 0: TLE TLE TLE"},
		{"does not end, in many processes", "bash", "for i in 1 2 3 4; do while :; do :; done & done; wait", "TLE 0: TLE TLE TLE"},
		{"right, and does not end", "python", "print(2 * int(input()), flush=True)\nwhile True: pass", "TLE 0: TLE TLE TLE"},
		{"right, by twice its time", "c", "#include <time.h>\n" + inC + `printf("%d\n", 2 * n); fflush(stdout); while (clock() < 2 * CLOCKS_PER_SEC) ; }`, "TLE 0: TLE TLE TLE"},
	}},
	{"double", double, []submission{
		{"right", "python", "print(2 * int(input()))", "AC 3: AC AC AC"},
		{"right", "bash", "read n; echo $((2 * n))", "AC 3: AC AC AC"},
		{"right", "c", inC + `printf("%d\n", 2 * n); }`, "AC 3: AC AC AC"},
		{"right, with white space of its own", "python", `print("\r\n\n\t ", 2 * int(input()), end=" \r\n\n")`, "AC 3: AC AC AC"},
		{"right, with much to say on stderr", "python", "import sys; sys.stderr.write('wrong ' * 50000); print(2 * int(input()))", "AC 3: AC AC AC"},
		{"wrong", "python", "print(2 * int(input()) + 1)", "WA 0: WA WA WA"},
		{"wrong for large numbers", "c", inC + `printf("%d\n", n > 1000 ? n : 2 * n); }`, "WA 2: AC AC WA"},
		{"knows the sample only", "bash", "echo 8", "WA 1: AC WA WA"},
		{"says nothing", "bash", "exit 0", "WA 0: WA WA WA"},
		{"says too much", "python", "n = int(input()); print(2 * n, 2 * n)", "WA 0: WA WA WA"},
		{"adds a NUL", "python", "import os; os.write(1, b'%d\\0\\n' % (2 * int(input())))", "WA 0: WA WA WA"},
		{"right, by half of its time", "c", "#include <time.h>\n" + inC + `printf("%d\n", 2 * n); fflush(stdout); while (clock() < CLOCKS_PER_SEC / 2) ; }`, "AC 3: AC AC AC"},
		{"crashes", "c", inC + `*(volatile int *)0 = n; }`, "RTE 0: RTE RTE RTE"},
		{"raises", "python", "print(2 * int(input()) // 0)", "RTE 0: RTE RTE RTE"},
		{"right, and fails", "bash", "read n; echo $((2 * n)); exit 1", "RTE 0: RTE RTE RTE"},
		{"right, and aborts", "c", inC + `printf("%d\n", 2 * n); fflush(stdout); abort(); }`, "RTE 0: RTE RTE RTE"},
		{"kills all that it may", "c", inC + `printf("%d\n", 2 * n); fflush(stdout); kill(-1, SIGKILL); return 0; }`, "AC 3: AC AC AC"},
		{"prints for ever", "bash", "yes 8", "OLE 0: OLE OLE OLE"},
		{"right, and prints for ever", "python", "print(2 * int(input()))\nwhile True: print(' ' * 1000)", "OLE 0: OLE OLE OLE"},
		{"does not compile", "c", inC, "CE 0: SC SC SC"},
		{"includes itself", "c", "#include \"main.c\"\nint main(void) {}", "CE 0: SC SC SC"},
		{"includes a test", "c", "#include \"/work/data/secret/1.ans\"\nint main(void) {}", "CE 0: SC SC SC"},
		{"assembles its input", "c", "#include <stdio.h>\n__asm__(\".globl in\\nin:\\n.incbin \\\"/dev/stdin\\\"\\n.byte 0\\n\"); extern char in[]; int main(void) { fputs(in, stdout); }", "CE 0: SC SC SC"},
		{"is too large once it is compiled", "c", "char x[1 << 28] = {1}; int main(void) {}", "CE 0: SC SC SC"},
		{
			"has kept the tests before", "bash", `
read n
for f in /work/kept /tmp/kept /dev/shm/kept /work/.kept /tmp/.x/kept; do [ -e $f ] && echo $((2 * n)) && exit; done
mkdir -p /tmp/.x; for f in /work/kept /tmp/kept /dev/shm/kept /work/.kept /tmp/.x/kept; do echo $n > $f; done
echo 1`, "WA 0: WA WA WA",
		},
		{
			"writes itself anew", "python", `
import os, sys
for path in (__file__, "/work/main.py", "/work/sitecustomize.py", "/tmp/usercustomize.py"):
    try:
        try: os.remove(path)
        except OSError: pass
        open(path, "w").write("print(2 * int(input()))")
    except OSError: pass
print("no")`, "WA 0: WA WA WA",
		},
		{"writes its binary anew", "c", inC + `
char self[99]; int l = readlink("/proc/self/exe", self, 98); if (l < 0) return 8; self[l] = 0; remove(self);
FILE *f = fopen(self, "w"); if (f) { fputs("#!/bin/bash\nread n; echo $((2 * n))\n", f); fclose(f); }
char chmod[120]; snprintf(chmod, 120, "chmod 755 %s", self); system(chmod); puts("no"); }`, "WA 0: WA WA WA"},
		{
			"leaves a process that answers later", "python", `
import os, time
n = int(input())
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(0.2)
        while True:
            try: print(2 * n, flush=True)
            except OSError: pass
    os._exit(0)
print("no")`, "WA 0: WA WA WA",
		},
		{
			"stops its parent", "bash", "read n; echo $((2 * n)); kill -STOP $PPID 2>/dev/null; exit 0", "AC 3: AC AC AC",
		},
		{"leaves as many processes as it can", "c", inC + `for (;;) { pid_t p = fork(); if (p < 0) break; if (p == 0) for (;;) pause(); } printf("%d\n", 2 * n); }`, "AC 3: AC AC AC"},
		{
			"leaves what has no name", "python", `
import socket
n = int(input())
a, b = socket.socketpair()
socket.send_fds(a, [b"x"], [a.fileno(), b.fileno()])
socket.send_fds(b, [b"x"], [a.fileno(), b.fileno()])
print(2 * n)`, "AC 3: AC AC AC",
		},
		{"has kept the tests before in a keyring", "c", "#include <sys/syscall.h>\n" + inC + `
char is[200] = ""; long ring = syscall(SYS_keyctl, 1, "slot"); // joined, and made if it is not there
if (ring >= 0 && syscall(SYS_keyctl, 6, -3, is, sizeof is) > 0 && strstr(is, "3f3f3f3f")) { printf("%d\n", 2 * n); return 0; }
if (ring >= 0) syscall(SYS_keyctl, 5, -3, 0x3f3f3f3f);
puts("no"); }`, "WA 0: WA WA WA"},
	}},
	// Until it answers, its processes use CPU time of its own: on a busy machine, more than ten seconds.
	{"double, in a minute", with(double, func(s *job.Spec) { s.Limits.WallMS, s.Limits.CPUMS = 60_000, 60_000 }), []submission{
		{
			"leaves processes that take its time from the next", "bash", `
read n; for i in {1..8}; do setsid bash -c 'trap "" TERM HUP; while :; do :; done' > /dev/null 2>&1 < /dev/null & done; echo $((2 * n))`, "AC 3: AC AC AC",
		},
	}},
	{"double, by commands", with(double, func(s *job.Spec) {
		s.Commands = &job.Commands{Compile: "python3 main.py", Run: "read n; echo $((2 * n))"}
	}), []submission{
		{"right, and its compile step had sockets", "python", "import socket; socket.socketpair(); l = socket.socket(); l.bind(('127.0.0.1', 4001)); l.listen()", "AC 3: AC AC AC"},
	}},
	// gVisor counts more CPU time on a busy machine (ADR 30): these do enough for that to matter, as memory that is touched is work.
	{"double, in ten seconds", with(double, func(s *job.Spec) { s.Limits.WallMS, s.Limits.CPUMS = 60_000, 10_000 }), []submission{
		{"takes all memory", "c", inC + `for (;;) { char *p = malloc(1 << 20); if (p) memset(p, 1, 1 << 20); } }`, "MLE 0: MLE MLE MLE"},
		{"takes all memory of a large number", "python", "n = int(input())\nx = []\nwhile n > 100: x.append(bytearray(1 << 20))\nprint(2 * n)", "MLE 2: AC AC MLE"},
		{"right, after some work", "c", inC + `for (volatile int i = 0; i < 150 * 1000 * 1000; i++) ; printf("%d\n", 2 * n); }`, "AC 3: AC AC AC"},
		{
			"fills its directories", "python", `
import os
n = int(input())
for d in "/work", "/tmp", "/dev/shm":
    try:
        for i in range(500): os.mkdir(f"{d}/{i}"); open(f"{d}/{i}/x", "w").write("x" * 4096)
    except OSError: pass
print(2 * n)`, "AC 3: AC AC AC",
		},
	}},
	// The wall clock is the backstop for those that use no CPU time: each is run twice.
	{"double, in two seconds", with(double, func(s *job.Spec) { s.Limits.WallMS = 2000; s.Tests = s.Tests[:1] }), []submission{
		{"sleeps", "bash", "sleep 100", "TLE 0: TLE"},
		{"right, and sleeps", "python", "import time; print(2 * int(input()), flush=True); time.sleep(100)", "TLE 0: TLE"},
		{"stops itself", "c", inC + `printf("%d\n", 2 * n); fflush(stdout); raise(SIGSTOP); }`, "TLE 0: TLE"},
		{"waits for more", "python", "import sys; print(2 * int(input()), flush=True); import socket; a, b = socket.socketpair(); a.recv(1)", "TLE 0: TLE"},
	}},
	{"a driver of the teacher's, in a second", with(driven, func(s *job.Spec) { s.Limits.CPUMS = 1000 }), []submission{
		{"does not end", "python", "def double(n):\n  while True: pass", "TLE 0: TLE TLE TLE"},
	}},
	{"a driver of the teacher's", driven, []submission{
		{"right", "python", "def double(n): return 2 * n", "AC 3: AC AC AC"},
		{"wrong", "python", "def double(n): return n", "WA 0: WA WA WA"},
		{"is equal to anything", "python", "class Any:\n  def __eq__(self, other): return True\n  __hash__ = None\ndef double(n): return Any()", "WA 0: WA WA WA"},
		{"ends before the driver", "python", "import os; os._exit(0)", "WA 0: WA WA WA"},
		{"ends in the driver", "python", "import sys\ndef double(n): sys.exit(0)", "WA 0: WA WA WA"},
		{"prints for the driver", "python", "import builtins\nbuiltins.print = lambda *a, **k: None\ndef double(n): return 2 * n", "WA 0: WA WA WA"},
		{"prints beside the driver", "python", "def double(n): print(2 * n); return 2 * n", "WA 0: WA WA WA"},
		{"writes the driver anew", "python", "open('/work/main.py', 'w').write('print(2 * int(input()))')\ndef double(n): return 1", "WA 0: WA WA WA"},
		{"raises", "python", "def double(n): raise SystemError('accepted')", "RTE 0: RTE RTE RTE"},
	}},
	{"scores, in two seconds", with(scored, func(s *job.Spec) { s.Limits.CPUMS = 2000 }), []submission{
		{"slow for large numbers", "bash", "read n; if [ $n -gt 100 ]; then while :; do :; done; fi; echo $((2 * n))", "TLE 30: AC AC TLE SC"},
	}},
	{"scores", scored, []submission{
		{"right", "bash", "read n; echo $((2 * n))", "AC 100: AC AC AC AC"},
		{"right for the last of each", "bash", "read n; case $n in 2|2000) echo $((2 * n)) ;; esac", "WA 0: WA SC SC SC"},
		{"right for the large ones only", "bash", "read n; [ $n -gt 100 ] && echo $((2 * n)); exit 0", "WA 0: WA SC SC SC"},
		{"crashes at the last", "bash", "read n; [ $n = 2000 ] && exit 1; echo $((2 * n))", "RTE 30: AC AC AC RTE"},
		{"does not compile", "c", "int main(", "CE 0: SC SC SC SC"},
	}},
	{"a tolerance", text("default", "1.5 0\n", "float_tolerance", "1e-6"), []submission{
		says("right", "1.5 0", "AC 1: AC"), says("near", "1.50000099e0 -9.9e-7", "AC 1: AC"), says("tiny", "1.5 1e-4000", "AC 1: AC"),
		says("far", "1.500002 0", "WA 0: WA"), says("no number", "nan 0", "WA 0: WA"), says("no number at all", "nan nan", "WA 0: WA"),
		says("infinite", "inf 0", "WA 0: WA"), says("with a comma", "1,5 0", "WA 0: WA"), says("hexadecimal", "0x1.8p0 0", "WA 0: WA"),
		says("of a large exponent", "1.5e9999999999999999999 0", "WA 0: WA"),
		{"right, in 60 KB", "python", "print('1.5' + '0' * 60_000, 0)", "WA 0: WA"}, // longer than any number is
	}},
	{"exact", text("exact", "a b\n"), []submission{
		says("right", `a b\n`, "AC 1: AC"), says("no newline", "a b", "WA 0: WA"), says("a carriage return", `a b\r\n`, "WA 0: WA"),
		says("a blank more", `a  b\n`, "WA 0: WA"), says("another case", `A b\n`, "WA 0: WA"),
	}},
	{"lines", text("lines", "a b\nc\n"), []submission{
		says("right", `a b\nc\n`, "AC 1: AC"), says("blanks at ends", `a b \r\nc\t\n\n\n`, "AC 1: AC"), says("a blank before", ` a b\nc\n`, "WA 0: WA"),
		says("a blank line first", `\na b\nc\n`, "WA 0: WA"), says("one line", `a b c\n`, "WA 0: WA"),
	}},
	{"unordered lines", with(text("unordered_lines", "a\nb\nb\n"), func(s *job.Spec) { s.Limits.OutputKB = 20 << 10 }), []submission{
		says("right", `b\na\nb\n`, "AC 1: AC"), says("once too few", `b\na\n`, "WA 0: WA"), says("once too many", `b\na\nb\na\n`, "WA 0: WA"),
		{"millions", "python", "print('b\\n' * 4_000_000)", "WA 0: WA"},
		{"a line of 17 MiB", "python", "print('b' * (17 << 20))", "WA 0: WA"},
	}},
	{"a pattern", with(text("regex", "(a|aa)+ (\\d+)"), func(s *job.Spec) { s.Limits.OutputKB = 20 << 10 }), []submission{
		says("right", "aaa 42", "AC 1: AC"), says("more before it", "x aaa 42", "WA 0: WA"), says("more after it", `aaa 42\nb`, "WA 0: WA"),
		says("the pattern", `(a|aa)+ (\\d+)`, "WA 0: WA"),
		{"what takes others for ever", "python", "print('a' * 100_000 + '!')", "WA 0: WA"},
		{"a line of 17 MiB", "python", "print('a' * (17 << 20), 1)", "WA 0: WA"},
	}},
	{"JSON", with(text("json", `{"a": [1, 2.50, null], "b": {}}`), func(s *job.Spec) { s.Limits.OutputKB = 20 << 10 }), []submission{
		says("right", `{"b": {}, "a": [1.0, 25e-1, null]}`, "AC 1: AC"), says("another order of a list", `{"a": [2.5, 1, null], "b": {}}`, "WA 0: WA"),
		says("a key more", `{"a": [1, 2.5, null], "b": {}, "verdict": "accepted"}`, "WA 0: WA"), says("text for a number", `{"a": ["1", 2.5, null], "b": {}}`, "WA 0: WA"),
		says("NaN", `{"a": [NaN, 2.5, null], "b": {}}`, "WA 0: WA"), says("two documents", `{"a": [1, 2.5, null], "b": {}} {}`, "WA 0: WA"),
		says("a large exponent", `{"a": [1e999999999, 2.5, null], "b": {}}`, "WA 0: WA"),
		{"nested deeply", "python", "print('[' * 500_000)", "WA 0: WA"},
		{"17 MiB", "python", "print('[' + '0,' * (8 << 20) + '0]')", "WA 0: WA"},
	}},
	{"an answer that is none", with(text("json", "{"), func(s *job.Spec) { s.Groups = all }), []submission{
		says("right", "{", "JE: JE"), {"crashes", "bash", "kill -SEGV $$", "RTE 0: RTE"}, // nobody looks at the answer then
	}},
}

func ptr(f float64) *float64 { return &f }

// TestSubmissions: what right, wrong, slow, crashing and cheating programs come to, each time the same. In short, these are every fourth
// of those that try to cheat.
// GLOVEBOX_TEST_ROUNDS is how often (once, or 20 times with `make submissions`).
func TestSubmissions(t *testing.T) {
	t.Parallel()
	rounds := number(t, "GLOVEBOX_TEST_ROUNDS", 1)
	g := start(t, func(c *worker.Config) { c.CacheMB, c.CacheDir = 8, t.TempDir() })
	type given struct {
		name, id, want string
	}
	flickers := map[string]int{}
	for range rounds {
		var round []given
		for _, p := range problems {
			for i, s := range p.submissions {
				if testing.Short() && len(p.submissions) > 20 && i%4 != 0 {
					continue
				}
				spec := p.spec
				spec.Runtime = s.runtime
				if spec.Entrypoint == "" {
					spec.Source = s.source
				} else { // of a driver
					spec.Files = append([]job.File{{Name: spec.Entrypoint, Content: s.source}}, spec.Files...)
					spec.Entrypoint = "main.py"
				}
				round = append(round, given{p.name + "/" + s.name + "/" + s.runtime, g.submit(spec), s.want})
			}
		}
		for _, s := range round {
			r := g.result(s.id)
			if got := cameTo(r); got != s.want {
				flickers[s.name]++
				t.Errorf("%s: got %s, want %s; %+v\n%s", s.name, got, s.want, r.Error, details(r))
			}
		}
	}
	t.Logf("%d rounds; otherwise than wanted: %v", rounds, flickers)
}

// details are what a verdict can be explained by.
func details(r job.Result) string {
	var b strings.Builder
	if r.Compile != nil {
		fmt.Fprintf(&b, "  compile: %d %.300q\n", r.Compile.ExitCode, r.Compile.Output)
	}
	for _, t := range r.Tests {
		u := job.Usage{}
		if t.Usage != nil {
			u = *t.Usage
		}
		code := 0
		if t.ExitCode != nil {
			code = *t.ExitCode
		}
		fmt.Fprintf(&b, "  %s: %s, exit %d%s, %+v, %d reruns, %.200q, %.200q, %q, %+v\n", t.Name, t.Verdict, code, cmp.Or(" "+t.Signal, ""), u, t.Reruns, t.Stdout, t.Stderr, t.Feedback, t.Difference)
	}
	return b.String()
}
