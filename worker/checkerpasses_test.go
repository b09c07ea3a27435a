package worker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// codeChecker wants a number written in letters in the first pass, and read again from these in the second. What it has to
// know of the first pass then is in its feedback directory.
const codeChecker = `
import os, sys
from pathlib import Path
feedback = Path(sys.argv[3])
read, answer, said = Path(sys.argv[1]).read_text(), Path(sys.argv[2]).read_text(), sys.stdin.read().split()
kept = feedback / "state" / "number"
with open(feedback / "judgemessage.txt", "a") as message: message.write("read %r, said %s; " % (read, said))
if not kept.exists():
    if len(said) != 1 or not said[0].isalpha(): sys.exit(43)
    kept.parent.mkdir()
    kept.write_text(read.split()[1])
    os.symlink("/nowhere", feedback / "link")
    (feedback / "nextpass.in").write_text("decode " + said[0] + "\n")
    sys.exit(42)
assert answer == "secret" and os.readlink(feedback / "link") == "/nowhere" and not (feedback / "nextpass.in").exists()
sys.exit(42 if said == [kept.read_text()] else 43)
`

// coder is a submission to it, which does what its argument says. The number is in no input but the first pass's.
const coder = `
import glob, os, socket, sys, time
what, x = input().split()
first = what == 'encode'
places = ['/work/kept', '/tmp/kept', '/dev/shm/kept', '/tmp/.glovebox/kept']
how = sys.argv[1]
if how == 'right': print(''.join(chr(97 + int(c)) for c in x) if first else ''.join(str(ord(c) - 97) for c in x))
elif how == 'wrong in the first': print(1)
elif first:
    if how == 'leaves files':
        for p in places:
            try: open(p, 'w').write(x)
            except OSError: pass
        if os.fork() == 0:
            os.setsid()
            while True: time.sleep(1)
    if how == 'leaves ports':
        for bit in range(21):
            try:
                if int(x) >> bit & 1 == 0: continue
                with socket.create_server(('127.0.0.1', 20000 + bit)) as server, socket.create_connection(server.getsockname()) as near:
                    far, _ = server.accept()
                    far.close() # the first to close waits
                    near.recv(1)
            except OSError: pass
    print('a')
elif how == 'wrong in the second': print('a')
elif how == 'crashes in the second': raise SystemExit(3)
elif how == 'sleeps in the second': time.sleep(100)
elif how == 'eats memory in the second':
    held = []
    while True: held.append(b'x' * (8 << 20))
elif how == 'leaves ports':
    number = 0
    for bit in range(21):
        try: socket.socket().bind(('127.0.0.1', 20000 + bit))
        except OSError as e: number |= 1 << bit
    print(number)
elif how == 'leaves files':
    found = [open(p).read() for p in places if os.path.exists(p)]
    print(found[0] if found else 'nothing', len([p for p in glob.glob('/proc/[0-9]*') if p != '/proc/1']))
`

// passes is a job with a test of up to so many passes for each argument of the submission.
func passes(n int, source, checker string, args ...string) job.Spec {
	spec := judgedBy("python", checker)
	spec.Runtime, spec.Source, spec.Checker.Passes = "python", source, n
	for _, arg := range args {
		spec.Tests = append(spec.Tests, job.Test{Name: arg, Stdin: "encode 1234567\n", Answer: "secret", Args: []string{arg}})
	}
	return spec
}

// TestPasses: a submission is run again with what the checker wrote, in the same test, and finds nothing of the pass
// before. The checker finds what it left.
func TestPasses(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	args := []string{"right", "wrong in the first", "wrong in the second", "crashes in the second", "leaves files", "leaves ports", "eats memory in the second"}
	r := g.result(g.submit(passes(2, coder, codeChecker, args...)))
	if got, want := cameTo(r), "WA 1: AC WA WA RTE WA WA MLE"; got != want || r.Attempt != 1 {
		t.Fatalf("got %s in attempt %d, want %s; %+v", got, r.Attempt, want, r.Error)
	}
	var most, all int64 // of one pass, as the tests have it; of all passes
	for i, want := range []struct {
		passes         int
		stdout, judges string
	}{
		{2, "1234567\n", `read 'encode 1234567\n', said ['bcdefgh']; read 'decode bcdefgh\n', said ['1234567']; `},
		{1, "1\n", `read 'encode 1234567\n', said ['1']; `},
		{2, "a\n", `read 'encode 1234567\n', said ['a']; read 'decode a\n', said ['a']; `},
		{2, "", ""},
		{2, "nothing 1\n", `read 'encode 1234567\n', said ['a']; read 'decode a\n', said ['nothing', '1']; `},
		{2, "2097151\n", `read 'encode 1234567\n', said ['a']; read 'decode a\n', said ['2097151']; `}, // no port is to be had
		{2, "", ""},
	} {
		test := r.Tests[i]
		if test.Passes != want.passes || test.Stdout != want.stdout || test.JudgeMessage != want.judges {
			t.Errorf("%s: got %+v, want %+v", test.Name, test, want)
		}
		most, all = most+test.Usage.WallMS, all+int64(test.Passes)
	}
	if r.Usage.WallMS <= most || all != 13 {
		t.Errorf("all passes took %d ms, and the longest of each test together %d", r.Usage.WallMS, most)
	}
}

// TestPassTimesOut: a time-out in a second pass is the test's verdict. It may have been the machine, so this pass is run once
// more, and no other.
func TestPassTimesOut(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for two runs to time out")
	}
	g := start(t, nil)
	spec := passes(2, coder, codeChecker, "sleeps in the second")
	spec.Limits.WallMS = 3000
	r := g.result(g.submit(spec))
	if got := cameTo(r); got != "TLE 0: TLE" || r.Tests[0].Passes != 2 || r.Tests[0].Reruns != 1 {
		t.Errorf("got %s, %+v; %+v", got, r.Tests, r.Error)
	}
}

// TestPassesOfCheckers: what a checker may not ask for, and what it may keep.
func TestPassesOfCheckers(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	const checker = `
import os, sys
feedback = sys.argv[3]
def next(text="again"): open(feedback + "nextpass.in", "w").write(text)
exec(sys.argv[4])
sys.exit(42)
`
	cases := []passCase{
		{"always once more", "next()", "judge_error 0", 3},
		{"once more of what it rejects", "next(); sys.exit(43)", "judge_error 0", 1},
		{"once more as it fails", "next(); sys.exit(1)", "judge_error 0", 1},
		{"a link", "os.symlink(sys.argv[2], feedback + 'nextpass.in')", "judge_error 0", 1},
		{"keeps a link to itself", "if not os.path.lexists(feedback + 'l'): os.symlink('.', feedback + 'l'); next()", "accepted 1", 2},
		{"too long an input", "next('x' * (8 << 20) + 'x')", "judge_error 0", 1},
		{"the longest input", "if len(open(sys.argv[1]).read()) < 100: next('x' * (8 << 20))\nelif sys.stdin.read() != str(8 << 20) + '\\n': sys.exit(43)", "accepted 1", 2},
		{"keeps too much", "open(feedback + 'x', 'w').truncate(2 << 20); next()", "judge_error 0", 1},
		{"keeps much", "p = feedback + 'x'\nif not os.path.exists(p): open(p, 'w').truncate(1000000); next()\nelif os.path.getsize(p) != 1000000: sys.exit(43)", "accepted 1", 2},
		{"keeps what can't be read", "open(feedback + 'x', 'w'); os.chmod(feedback + 'x', 0); next()", "judge_error 0", 1},
		{"bytes as input", "if os.path.getsize(sys.argv[1]) == 0: open(feedback + 'nextpass.in', 'wb').write(b'\\0\\xff\\n\\0')\nelif sys.stdin.read() != '4\\n': sys.exit(43)", "accepted 1", 2},
		{"an empty input", "p = feedback + 'x'\nif not os.path.exists(p): open(p, 'w'); next('')", "accepted 1", 2},
		{"a score of the last pass", "p = feedback + 'score.txt'\nif os.path.exists(p): open(p, 'w').write('3')\nelse: open(p, 'w').write('none'); next()", "accepted 3", 2},
		{"no other pass", "", "accepted 1", 1},
	}
	g.judgesPasses(passes(3, "import sys\nprint(len(sys.stdin.buffer.read()))", checker), job.Test{}, cases, "asks for more passes")
}

// passCase is what a checker or interactor does in one test, what the test comes to, and in how many passes.
type passCase struct {
	name, does, want string
	ran              int
}

// judgesPasses grades by these cases, each in a test that is otherwise like this one. The first can't be judged, which is why the job fails.
func (g *glovebox) judgesPasses(spec job.Spec, test job.Test, cases []passCase, why string) {
	g.t.Helper()
	for _, c := range cases {
		test.Name, test.CheckerArgs = c.name, []string{c.does}
		spec.Tests = append(spec.Tests, test)
	}
	r := g.result(g.submit(spec))
	if r.Status != job.Failed || r.Score != nil || r.Attempt != 1 || r.Error == nil || r.Error.Code != job.CodeJudgeError || !strings.Contains(r.Error.Message, why) {
		g.t.Errorf("got %s in attempt %d, %+v; want an error with why the first test could not be judged", r.Status, r.Attempt, r.Error)
	}
	for i, test := range r.Tests {
		if got, c := fmt.Sprintf("%s %g", test.Verdict, test.Score), cases[i]; got != c.want || test.Passes != c.ran || strings.Contains(test.JudgeMessage, "Traceback") {
			g.t.Errorf("%s: got %s in %d passes, want %s in %d; %s", c.name, got, test.Passes, c.want, c.ran, test.JudgeMessage)
		}
	}
}
