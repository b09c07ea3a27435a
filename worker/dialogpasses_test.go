package worker_test

import (
	"fmt"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// codeTalker is codeChecker as an interactor: it tells a number, wants letters, and in a second pass tells these and wants the number.
const codeTalker = `
import os, sys
from pathlib import Path
feedback = Path(sys.argv[3])
read, answer = Path(sys.argv[1]).read_text(), Path(sys.argv[2]).read_text()
kept = feedback / "state" / "number"
print(read.strip(), flush=True)
said = sys.stdin.readline().split()
with open(feedback / "judgemessage.txt", "a") as message: message.write("told %r, heard %s; " % (read, said))
if not kept.exists():
    if len(said) != 1 or not said[0].isalpha(): sys.exit(43)
    kept.parent.mkdir()
    kept.write_text(read.split()[1])
    (feedback / "nextpass.in").write_text("decode " + said[0] + "\n")
    sys.exit(42)
assert answer == "secret" and not (feedback / "nextpass.in").exists()
sys.exit(42 if said == [kept.read_text()] else 43)
`

// talkingCoder is a submission to it: coder, which flushes what it prints, and what only a dialog can have.
const talkingCoder = `
import os, sys, time, functools
print = functools.partial(print, flush=True)
how = sys.argv[1]
def told(): return input().startswith('encode')
if how == 'ends at once': raise SystemExit
elif how == 'ends early in the second':
    if told(): print('a')
    raise SystemExit
elif how == 'talks on':
    print('bcdefgh' if told() else 1234567)
    print('x' * 100000)
    assert sys.stdin.read() == ''
    raise SystemExit
elif how == 'crashes once it is accepted': told(); print('a'); sys.stdin.read(); raise SystemExit(3)
elif how == 'sleeps on': told(); print('a'); sys.stdin.read(); time.sleep(100)
elif how == 'right, at the second time':
    first = told()
    if not first and os.getuid() == 10001: time.sleep(100) # the user of the job's second run
    print('bcdefgh' if first else 1234567)
    raise SystemExit
` + coder

// talksInPasses is [passes] with an interactor.
func talksInPasses(n int, source, interactor string, args ...string) job.Spec {
	spec := passes(n, source, interactor, args...)
	spec.Checker.Interactive = true
	return spec
}

// TestDialogPasses: a program talks to a new interactor in each pass. That one knows what the one before left, and the program nothing.
func TestDialogPasses(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	const toldFirst, toldA = `told 'encode 1234567\n', heard ['bcdefgh']; `, `told 'encode 1234567\n', heard ['a']; `
	const saidA = "< encode 1234567\n> a\n"
	cases := []struct {
		how         string
		want        job.Verdict
		passes      int
		judges      string
		interaction string // of the last pass
	}{
		{"right", job.Accepted, 2, toldFirst + `told 'decode bcdefgh\n', heard ['1234567']; `, "< decode bcdefgh\n> 1234567\n"},
		{"wrong in the first", job.WrongAnswer, 1, `told 'encode 1234567\n', heard ['1']; `, "< encode 1234567\n> 1\n"},
		{"wrong in the second", job.WrongAnswer, 2, toldA + `told 'decode a\n', heard ['a']; `, "< decode a\n> a\n"},
		{"ends at once", job.WrongAnswer, 1, `told 'encode 1234567\n', heard []; `, "< encode 1234567\n"},
		{"ends early in the second", job.WrongAnswer, 2, toldA + `told 'decode a\n', heard []; `, "< decode a\n"},
		{"crashes in the second", job.RunTimeError, 2, "", "< decode a\n"},
		{"crashes once it is accepted", job.RunTimeError, 1, "", saidA},
		{"talks on", job.Accepted, 2, toldFirst + `told 'decode bcdefgh\n', heard ['1234567']; `, ""},
		{"leaves files", job.WrongAnswer, 2, toldA + `told 'decode a\n', heard ['nothing', '1']; `, "< decode a\n> nothing 1\n"},
		{"eats memory in the second", job.TestOutOfMemory, 2, "", "< decode a\n"},
		{"right", job.Accepted, 2, toldFirst + `told 'decode bcdefgh\n', heard ['1234567']; `, ""},
	}
	spec := talksInPasses(2, talkingCoder, codeTalker)
	for i, c := range cases {
		spec.Tests = append(spec.Tests, job.Test{Name: fmt.Sprint(i), Stdin: "encode 1234567\n", Answer: "secret", Args: []string{c.how}})
	}
	r := g.result(g.submit(spec))
	if r.Status != job.Succeeded || r.Attempt != 1 || len(r.Tests) != len(cases) {
		t.Fatalf("got %s in attempt %d, %+v", r.Status, r.Attempt, r.Error)
	}
	for i, c := range cases {
		got := r.Tests[i]
		if got.Verdict != c.want || got.Passes != c.passes || got.JudgeMessage != c.judges {
			t.Errorf("%s: got %s in %d passes, %q; want %s in %d, %q; stderr %q", c.how, got.Verdict, got.Passes, got.JudgeMessage, c.want, c.passes, c.judges, got.Stderr)
		}
		if c.interaction != "" && got.Interaction != c.interaction {
			t.Errorf("%s: got the interaction %q, want %q", c.how, got.Interaction, c.interaction)
		}
	}
}

// TestDialogPassTimesOut: who sleeps gets into no other pass. A second pass that is run once more is a new dialog on what the first one left.
func TestDialogPassTimesOut(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for runs to time out")
	}
	g := start(t, nil)
	for _, c := range []struct {
		how    string
		want   job.Verdict
		passes int
	}{
		{"right, at the second time", job.Accepted, 2},
		{"sleeps on", job.TestTimedOut, 1},
		{"sleeps in the second", job.TestTimedOut, 2},
	} {
		spec := talksInPasses(2, talkingCoder, codeTalker, c.how)
		spec.Limits.WallMS = 3000
		r := g.result(g.submit(spec))
		if len(r.Tests) != 1 || r.Tests[0].Verdict != c.want || r.Tests[0].Passes != c.passes || r.Tests[0].Reruns != 1 {
			t.Errorf("%s: got %+v, want %s in %d passes, and one rerun; %+v", c.how, r.Tests, c.want, c.passes, r.Error)
		}
	}
}

// TestDialogPassesOfInteractors: what an interactor may not ask for, what it may keep, and what becomes of one that fails in its second pass.
func TestDialogPassesOfInteractors(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	const interactor = `
import os, sys
feedback = sys.argv[3]
path = feedback + "nextpass.in"
def next(text="again"): open(path, "w").write(text)
later = open(sys.argv[1]).read(5) != "first"
print("hello", flush=True)
heard = sys.stdin.readline()
exec(sys.argv[4])
sys.exit(42)
`
	cases := []passCase{
		{"always once more", "next()", "judge_error 0", 3},
		{"once more of what it rejects", "next(); sys.exit(43)", "judge_error 0", 1},
		{"once more as it fails", "next(); sys.exit(1)", "judge_error 0", 1},
		{"a link", "os.symlink(sys.argv[2], path)", "judge_error 0", 1},
		{"a directory", "os.mkdir(path)", "judge_error 0", 1},
		{"a pipe", "os.mkfifo(path)", "judge_error 0", 1},
		{"too long an input", "next('x' * (8 << 20) + 'x')", "judge_error 0", 1},
		{"the longest input", "if not later: next('x' * (8 << 20))\nelif open(sys.argv[1]).read() != 'x' * (8 << 20): sys.exit(43)", "accepted 1", 2},
		{"keeps too much", "open(feedback + 'x', 'w').truncate(2 << 20); next()", "judge_error 0", 1},
		{"keeps much, beside the longest input and messages", "p = feedback + 'x'\nif not later:\n    open(p, 'wb').write(os.urandom(800000)); next('x' * (8 << 20)); sys.stderr.write('x' * 100000)\n    for m in ('judgemessage.txt', 'teammessage.txt', 'score.txt'): open(feedback + m, 'w').write('x' * 50000)\nelse:\n    os.remove(feedback + 'score.txt')\n    if os.path.getsize(p) != 800000: sys.exit(43)", "accepted 1", 2},
		{"an empty input", "if os.path.exists(feedback + 'x'): sys.exit(42 if os.path.getsize(sys.argv[1]) == 0 else 43)\nopen(feedback + 'x', 'w'); next('')", "accepted 1", 2},
		{"a score of the last pass", "p = feedback + 'score.txt'\nif later: open(p, 'w').write('3')\nelse: open(p, 'w').write('none'); next()", "accepted 3", 2},
		{"no other pass", "", "accepted 1", 1},
		{"keeps nothing else", "if later and (os.path.exists('/tmp/x') or os.path.exists('x')): sys.exit(43)\nopen('/tmp/x', 'w'); open('x', 'w')\nif not later: next()", "accepted 1", 2},
		{"rejects in the second", "if later: sys.exit(43)\nnext()", "wrong_answer 0", 2},
		{"is killed in the second", "if later: os.kill(os.getpid(), 9)\nnext()", "judge_error 0", 2},
		{"kills its shell in the second", "if later: os.kill(os.getppid(), 9)\nnext()", "judge_error 0", 2},
		{"eats memory in the second", "x = []\nwhile later: x.append(bytearray(1 << 20))\nnext()", "judge_error 0", 2},
		{"never ends in the second", "import time\nif later: time.sleep(100)\nnext()", "judge_error 0", 2},
		{"goes on in another sandbox", "if not later: next()", "accepted 1", 2},
	}
	spec := talksInPasses(3, "import sys\nprint(input(), flush=True)\nsys.stdin.read()", interactor)
	spec.Checker.Program.Limits.WallMS, spec.Checker.Program.Limits.CPUMS = 4000, 20_000
	spec.Limits.WallMS = 20_000
	g.judgesPasses(spec, job.Test{Stdin: "first"}, cases, "asks for more passes (nextpass.in) than the problem has (checker.passes)")
}
