package worker_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/glovebox-run/glovebox/internal/grading/kattis"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
)

// anyDivisor accepts any divisor of the input between 1 and it, and says how good it is.
const anyDivisor = `
import sys
n, want = int(open(sys.argv[1]).read()), int(open(sys.argv[2]).read())
feedback = sys.argv[3]
def say(name, text): open(feedback + name, "w").write(str(text))
assert feedback.endswith("/") and sys.stdout.write("42 accepted\n")
say("judgemessage.txt", "want %d, args %s" % (want, sys.argv[4:]))
try:
    got = int(sys.stdin.read())
except ValueError:
    say("teammessage.txt", "that is no number")
    sys.exit(43)
if got < 1 or n % got:
    say("teammessage.txt", "%d does not divide it" % got)
    sys.exit(43)
if "points" in sys.argv: say("score.txt", got)
if "part" in sys.argv: say("score_multiplier.txt", got / want)
sys.exit(42)
`

// judgedBy is a job that prints what it reads, or else what source says, judged by a checker's program.
func judgedBy(runtime, checker string, tests ...job.Test) job.Spec {
	return job.Spec{
		Runtime: "bash", Source: "cat", Tests: tests, Groups: all, Limits: job.Limits{WallMS: 30_000, CPUMS: 4000, MemoryMB: 96, OutputKB: 4096},
		Checker: &job.Checker{Kind: job.CheckKattis, Program: &job.CheckerProgram{Runtime: runtime, Source: checker, Limits: job.Limits{WallMS: 20_000, MemoryMB: 128}}},
	}
}

// TestCheckerProgram: what a checker reads, what it says, and what that comes to.
func TestCheckerProgram(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	ten := 10.0
	spec := judgedBy("python", anyDivisor,
		job.Test{Name: "1", Stdin: "12", Answer: "6", Args: []string{"4"}},
		job.Test{Name: "2", Stdin: "12", Answer: "6", Args: []string{"5"}, Hint: "divide"},
		job.Test{Name: "3", Stdin: "12", Answer: "6", Args: []string{"x"}, CheckerArgs: []string{"a b", "c"}},
		job.Test{Name: "4", Stdin: "12", Answer: "6", Args: []string{"3"}, CheckerArgs: []string{"points"}},
		job.Test{Name: "5", Stdin: "12", Answer: "6", Args: []string{"12"}, CheckerArgs: []string{"points"}, Points: &ten},
		job.Test{Name: "6", Stdin: "12", Answer: "6", Args: []string{"3"}, CheckerArgs: []string{"part"}, Points: &ten},
		job.Test{Name: "7", Stdin: "12", Answer: "6", Args: []string{"5"}, Hidden: true, Hint: "hidden"},
		job.Test{Name: "8", Stdin: "12", Answer: "6", Args: []string{"2"}},
	)
	spec.Source = `echo "$1"`
	spec.Checker.Args = []string{"first"}
	r := g.result(g.submit(spec))
	if got, want := cameTo(r), "WA 20: AC WA WA AC AC AC WA AC"; got != want || *r.MaxScore != 28 {
		t.Fatalf("got %s of %v, want %s; %+v", got, r.MaxScore, want, r.Error)
	}
	for i, want := range []struct {
		score           float64
		feedback, judge string
	}{
		{1, "", "want 6, args ['first']"},
		{0, "5 does not divide it", "want 6, args ['first']"},
		{0, "that is no number", "want 6, args ['first', 'a b', 'c']"},
		{3, "", "want 6, args ['first', 'points']"},
		{10, "", "want 6, args ['first', 'points']"},
		{5, "", "want 6, args ['first', 'part']"},
		{0, "hidden", ""},
		{1, "", ""},
	} {
		if test := r.Tests[i]; test.Score != want.score || test.Feedback != want.feedback || test.JudgeMessage != want.judge {
			t.Errorf("test %s: got %+v, want %+v", test.Name, test, want)
		}
	}
}

// TestScoresThatGroupsTake: a score where the test's group takes none, more than the test gives, and none where each accepted test is to
// have one, are the judge's fault, and none of the submission's.
func TestScoresThatGroupsTake(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	ten := 10.0
	spec := judgedBy("python", anyDivisor)
	spec.Groups = []job.Group{
		{OnReject: "continue"},
		{Name: "none", Score: "pass_fail", CheckerScore: "none", OnReject: "continue"},
		{Name: "within", CheckerScore: "within", OnReject: "continue"},
		{Name: "required", CheckerScore: "required", OnReject: "continue"},
	}
	for _, c := range []struct {
		group, says string
		prints      string
	}{
		{"none", "", "6"},
		{"none", "points", "6"},
		{"within", "points", "6"},
		{"within", "points", "12"},
		{"within", "part", "3"},
		{"required", "points", "12"},
		{"required", "", "6"},
		{"required", "part", "6"},
		{"required", "", "5"},
	} {
		test := job.Test{Name: fmt.Sprint(len(spec.Tests)), Group: c.group, Stdin: "12", Answer: "6", Args: []string{c.prints}, CheckerArgs: []string{c.says}}
		if c.group == "within" {
			test.Points = &ten
		}
		spec.Tests = append(spec.Tests, test)
	}
	spec.Source = `echo "$1"`
	r := g.result(g.submit(spec))
	if got, want := cameTo(r), "JE: AC JE AC JE AC AC JE JE WA"; got != want || r.Attempt != 1 {
		t.Fatalf("got %s in attempt %d, want %s; %+v", got, r.Attempt, want, r.Error)
	}
	if want := `test "1" could not be checked: the checker gives a score, and the test's group is all or nothing (checker_score)`; r.Error == nil || r.Error.Code != job.CodeJudgeError || !strings.HasSuffix(r.Error.Message, want) {
		t.Errorf("got %+v, want %q", r.Error, want)
	}
}

// inPython is a checker of one statement or two.
func inPython(does string) string { return "import sys, os\nfeedback = sys.argv[3]\n" + does }

// TestCheckerPrograms: checkers that fail, cheat or are cheated. None of it is held against the submission as
// a wrong answer, and none of it keeps the worker.
func TestCheckerPrograms(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	plain := job.Test{Name: "1", Stdin: "a\n", Answer: "a\n"}
	tests := func(checker string) job.Spec { return judgedBy("python", inPython(checker), plain) }
	short := func(s job.Spec) job.Spec { s.Checker.Program.Limits.WallMS = 2000; return s }
	for _, c := range []struct {
		name, want, fault string
		spec              job.Spec
	}{
		{"exits with 0", "JE: JE", "exited with 0", tests("sys.exit(0)")},
		{"raises", "JE: JE", "exited with 1", tests("1/0")},
		{"is killed", "JE: JE", "exited with 137", tests("os.kill(os.getpid(), 9)")},
		{"never ends", "JE: JE", "not done in 2000 ms", short(tests("while True: pass"))},
		{"sleeps", "JE: JE", "not done in 2000 ms", short(tests("import time; time.sleep(100)"))},
		{"eats memory", "JE: JE", "out of memory", tests("x = []\nwhile True: x.append(bytearray(1 << 20))")},
		{"fills its disk", "JE: JE", "", tests("f = open('/tmp/x', 'wb')\nwhile True: f.write(b'x' * (1 << 20))")},
		{"prints for ever", "JE: JE", "not done in 2000 ms", short(tests("while True: print('x' * 1000)"))},
		{"says much on stderr", "AC 1: AC", "", tests("sys.stderr.write('x' * 1000000); sys.exit(42)")},
		{"writes more feedback than is kept", "AC 1: AC", "", tests("open(feedback + 'judgemessage.txt', 'w').write('x' * 1000000); sys.exit(42)")},
		{"writes bytes", "WA 0: WA", "", tests(`open(feedback + 'teammessage.txt', 'wb').write(b'\xff\0\n1 2\n'); sys.exit(43)`)},
		{"leaves a process", "AC 1: AC", "", tests("if os.fork() == 0:\n    while True: pass\nsys.exit(42)")},
		{"message is a link", "JE: JE", "left a link", tests("os.symlink(sys.argv[2], feedback + 'teammessage.txt'); sys.exit(42)")},
		{"message is a link to nothing", "JE: JE", "left a link", tests("os.symlink('/nowhere', feedback + 'judgemessage.txt'); sys.exit(43)")},
		{"score is a pipe", "JE: JE", "left a link", tests("os.mkfifo(feedback + 'score.txt'); sys.exit(42)")},
		{"score is a folder", "JE: JE", "left a link", tests("os.mkdir(feedback + 'score.txt'); sys.exit(42)")},
		{"feedback is a link", "AC 1: AC", "", tests("os.rmdir(feedback); os.symlink('/', feedback[:-1]); sys.exit(42)")},
		{"score is none", "JE: JE", "no number", tests("open(feedback + 'score.txt', 'w').write('nan'); sys.exit(42)")},
		{"scores what it rejects", "JE: JE", "that it rejects", tests("open(feedback + 'score.txt', 'w').write('1'); sys.exit(43)")},
		{"wants another pass", "JE: JE", "nextpass.in", tests("open(feedback + 'nextpass.in', 'w').write('1'); sys.exit(42)")},
		{"does not compile", "JE: JE", "could not be compiled", judgedBy("c", "int main(", plain)},
		{"is in C", "AC 1: AC", "", judgedBy("c", "#include <stdio.h>\nint main(int n, char **a) { FILE *f = fopen(a[2], \"r\"); return f && fgetc(f) == getchar() ? 42 : 43; }", plain)},
		{
			// It is run again for the tests after the one that it did not survive.
			"eats memory in one of three", "JE: AC JE AC", "out of memory",
			judgedBy("python", inPython("x = []\nwhile 'eat' in sys.argv: x.append(bytearray(1 << 20))\nsys.exit(42)"),
				job.Test{Name: "1"}, job.Test{Name: "2", CheckerArgs: []string{"eat"}}, job.Test{Name: "3"}),
		},
		{
			// Nothing of a check is left for the next: no file, no process.
			"leaves things", "AC 2: AC AC", "",
			judgedBy("python", inPython("p = '/tmp/x'\nif os.path.exists(p) or os.path.exists('x'): sys.exit(43)\nopen(p, 'w'); open('x', 'w'); sys.exit(42)"), job.Test{Name: "1"}, job.Test{Name: "2"}),
		},
		{
			// A size that is told by standard input would be that of the judge's files, too.
			"looks at the size of what it reads", "AC 1: AC", "",
			judgedBy("python", inPython("size = os.fstat(0).st_size; sys.stdin.seek(0)\nsys.exit(42 if size == 1000 and len(sys.stdin.read()) == 1000 else 43)"), job.Test{Name: "1", Stdin: strings.Repeat("x", 1000), Answer: "secret"}),
		},
		{
			"no input, no answer, no output", "AC 1: AC", "",
			judgedBy("python", inPython("sys.exit(42 if open(sys.argv[1]).read() + open(sys.argv[2]).read() + sys.stdin.read() == '' else 43)"), job.Test{Name: "1"}),
		},
		{
			"bytes and lines that look like sizes", "AC 1: AC", "",
			judgedBy("python", inPython(`sys.exit(42 if (open(sys.argv[1], 'rb').read(), open(sys.argv[2], 'rb').read(), sys.stdin.buffer.read()) == (b'\0\xff\n', b'9 9\n\0', b'\0\xff\n') else 43)`),
				job.Test{Name: "1", StdinBase64: "AP8K", AnswerBase64: "OSA5CgA="}),
		},
		{
			"a large output", "AC 1: AC", "",
			with(judgedBy("python", inPython("sys.exit(42 if len(sys.stdin.read()) == 3000000 else 43)"), job.Test{Name: "1"}), func(s *job.Spec) { s.Source = "head -c 3000000 /dev/zero" }),
		},
		{
			"no room for the output", "JE: JE", "not run",
			with(judgedBy("python", inPython("sys.exit(42)"), job.Test{Name: "1"}), func(s *job.Spec) {
				s.Source, s.Checker.Program.Limits.DiskMB = "head -c 3000000 /dev/zero", 1
			}),
		},
		{
			"the submission looks for the checker", "WA 0: WA", "",
			with(judgedBy("python", inPython("secret = 'mar' + 'ker'; sys.exit(42 if secret in sys.stdin.read() else 43)\n# marker"), job.Test{Name: "1", Answer: "marker"}), func(s *job.Spec) {
				s.Source = "cat /proc/*/cmdline /proc/*/environ | tr '\\0' ' '; grep -rs marker /work /tmp /dev/shm /proc/*/cwd 2>/dev/null; ls -la /tmp/.glovebox; true"
				s.Source = strings.ReplaceAll(s.Source, "marker", "m[a]rker")
			}),
		},
		{
			"the submission prints what a checker would", "WA 0: WA", "",
			with(tests("sys.exit(43)"), func(s *job.Spec) { s.Source = "printf 'exit 42\\nscore.txt 1\\n9'; exit 0" }),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := g.result(g.submit(c.spec))
			if got := cameTo(r); got != c.want || r.Attempt != 1 {
				t.Errorf("got %s in attempt %d, want %s; %+v", got, r.Attempt, c.want, r.Error)
			}
			if c.fault == "" {
				return
			}
			if r.Status != job.Failed || r.Error == nil || r.Error.Code != job.CodeJudgeError || !strings.Contains(fmt.Sprint(r.Error), c.fault) {
				t.Errorf("got %s, %+v, want an error with %q", r.Status, r.Error, c.fault)
			}
		})
	}
}

// TestSilentChecker: that nothing was heard of a checker's compile step is no fault of the submission, which is tried again.
func TestSilentChecker(t *testing.T) {
	t.Parallel()
	s := &silent{}
	s.steps.Store(1)
	g := start(t, func(c *worker.Config) { s.Sandboxes = c.Sandboxes; c.Sandboxes = s })
	if r := g.result(g.submit(compiledBy("true"))); cameTo(r) != "AC 2: AC AC" || r.Attempt != 2 {
		t.Errorf("got %s in attempt %d; %+v", cameTo(r), r.Attempt, r.Error)
	}
	if strings.Contains(g.log.String(), pauses) {
		t.Error("it made the worker pause")
	}
}

// TestCheckerUploads: a checker's files and what it reads may be uploads, which come through the worker's cache. One that is
// gone is no fault of the submission, or of Glovebox.
func TestCheckerUploads(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	long := strings.Repeat("0123456789\n", 300_000)
	module, _ := g.upload([]byte("def same(a, b): return open(a).read() == open(b).read()\n"))
	files := func(module string) *job.CheckerProgram {
		return &job.CheckerProgram{Runtime: "python", Entrypoint: "check.py", Files: []job.File{
			{Name: "check.py", Content: "import sys, lib\nsys.exit(42 if lib.same(sys.argv[1], sys.argv[2]) and len(sys.stdin.read()) == 3300000 else 43)\n"},
			{Name: "lib.py", Upload: module},
		}}
	}
	gone := strings.Repeat("0", 64)
	input, _ := g.upload([]byte(long))
	spec := judgedBy("", "", job.Test{Name: "1", StdinUpload: input, AnswerUpload: input})
	for _, c := range []struct {
		name, want, code string
		change           func(*job.Spec)
	}{
		{"all there", "AC 1: AC", "", func(s *job.Spec) {}},
		{"no answer", "JE: JE", job.CodeInputGone, func(s *job.Spec) { s.Tests = []job.Test{{Name: "1", StdinUpload: input, AnswerUpload: gone}} }},
		{"no module", "failed", job.CodeInputGone, func(s *job.Spec) { s.Checker = &job.Checker{Kind: job.CheckKattis, Program: files(gone)} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := g.result(g.submit(with(spec, func(s *job.Spec) {
				s.Checker = &job.Checker{Kind: job.CheckKattis, Program: files(module)}
				c.change(s)
			})))
			if got := cameTo(r); !strings.HasPrefix(got, c.want) || r.Attempt != 1 {
				t.Errorf("got %s in attempt %d, want %s; %+v", got, r.Attempt, c.want, r.Error)
			}
			code := ""
			if r.Error != nil {
				code = r.Error.Code
			}
			if code != c.code {
				t.Errorf("got the error %+v, want the code %q", r.Error, c.code)
			}
		})
	}
}

// TestCheckerScripts: a package's validator that brings a script that builds it, and one that builds nothing. What they are made
// of can't be executed as it comes, and what they make is a program of each check.
func TestCheckerScripts(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	const run = "#!/bin/bash\nread -r want <\"$2\"\nread -r got\n[ \"$got $4\" = \"$want strict\" ] && exit 42\nexit 43\n"
	for name, script := range map[string]string{
		"build": "#!/bin/bash\nset -e\nsed 's/43/40 + 3/; s/exit \\(.*\\)$/exit $((\\1))/' src/run >run\n", "run": run,
	} {
		files := fstest.MapFS{"problem.yaml": {Data: []byte("validation: custom\nvalidator_flags: strict\nlimits: {memory: 96, output: 1}\n")}}
		for test, answer := range map[string]string{"1": "a\n", "2": "b\n"} {
			files["data/secret/"+test+".in"], files["data/secret/"+test+".ans"] = &fstest.MapFile{Data: []byte("a\n")}, &fstest.MapFile{Data: []byte(answer)}
		}
		files["output_validators/check/src/run"], files["output_validators/check/"+name] = &fstest.MapFile{Data: []byte(run)}, &fstest.MapFile{Data: []byte(script)}
		problem, err := kattis.Read(files)
		if err != nil {
			t.Fatal(err)
		}
		program := kattis.Program{Runtime: "bash", Language: "bash", Files: []job.File{{Name: "main.sh", Content: "cat"}}}
		spec, err := problem.Spec(program, kattis.Run{Time: 4 * time.Second, All: true, Validator: "bash"})
		if err != nil {
			t.Fatal(err)
		}
		if r := g.result(g.submit(spec)); cameTo(r) != "WA 1: AC WA" {
			t.Errorf("%s: got %s; %+v", name, cameTo(r), r.Error)
		}
	}
}
