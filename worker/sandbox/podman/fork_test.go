package podman_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// forkedSteps are a session's turns, with a fork before the one of that number.
type forkedSteps struct {
	steps
	forkAt int
	asked  bool
	forks  chan sandbox.Fork // what came of it
	why    error
	goOn   chan struct{} // closed when the session may go on after it; nil: at once
}

func (s *forkedSteps) Next(ctx context.Context) (sandbox.Turn, bool, error) {
	if len(s.done) == s.forkAt && !s.asked {
		s.asked = true
		return sandbox.Turn{Fork: true}, true, nil
	}
	if s.asked && s.goOn != nil {
		<-s.goOn
	}
	return s.steps.Next(ctx)
}

func (s *forkedSteps) Forked(f sandbox.Fork, why error) {
	s.why = why
	s.forks <- f
}

// inBoth has a session execute a step, forks it, and has it and its fork execute others, beside each other.
func inBoth(t *testing.T, p *podman.Sandboxes, program sandbox.Program, before step, first, child []step) (was, is []turned) {
	t.Helper()
	left := p.PauseBytesLeft()
	s := &forkedSteps{steps: steps{todo: append([]step{before}, first...)}, forkAt: 1, forks: make(chan sandbox.Fork, 1), goOn: make(chan struct{})}
	program.Turns = s
	ended := make(chan error, 1)
	go func() {
		o, err := p.Run(t.Context(), program, &kept{})
		if o.Lost {
			err = errors.Join(err, errors.New("the sandbox is lost"))
		}
		ended <- err
	}()
	var f sandbox.Fork
	select {
	case f = <-s.forks:
	case err := <-ended:
		t.Fatalf("the session has ended: %v", err)
	}
	close(s.goOn) // both go on at once
	if f == nil {
		t.Fatalf("no fork: %v", s.why)
	}
	t.Logf("%.1f MiB", float64(f.Bytes())/(1<<20))
	of := &steps{todo: child}
	program.JobID, program.Turns, program.From = "forked", of, f
	if o, err := p.Run(t.Context(), program, &kept{}); err != nil || o.Lost {
		t.Errorf("the fork: lost %v, %v, after %d turns", o.Lost, err, len(of.done))
	}
	if err := <-ended; err != nil {
		t.Errorf("the first: %v, after %d turns", err, len(s.done))
	}
	if now := p.PauseBytesLeft(); now != left {
		t.Errorf("%d bytes of the disk are left, there were %d", now, left)
	}
	if _, err := p.Run(t.Context(), program, &kept{}); !errors.Is(err, sandbox.ErrStateLost) {
		t.Errorf("a second program goes on from the same fork: %v", err)
	}
	return s.done, of.done
}

// TestFork: two sandboxes go on from one state, beside each other, and neither sees anything of what the other does then.
func TestFork(t *testing.T) {
	for runtime, c := range map[string]struct {
		before       step
		first, child []step
		want         []want
		wantChild    []want
	}{
		"python": {
			step{code: `import numpy, os, socket, subprocess, threading, time
x = 1; a = numpy.arange(1000000)
open('kept.txt', 'w').write('one'); open('/tmp/there', 'w').write('tmp')
near, far = socket.socketpair(); near.send(b'sent')
child = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
ticks = []
def tick():
    while True:
        ticks.append(1); time.sleep(0.01)
threading.Thread(target=tick, daemon=True).start()`},
			[]step{{code: "x += 1; open('kept.txt', 'a').write(' first'); x, far.recv(9)"}, {code: "x, open('kept.txt').read(), child.communicate(b'first')[0]"}, {code: "n = len(ticks)\nwhile len(ticks) == n: time.sleep(0.01)\nTrue"}},
			[]step{{code: "x += 10; open('kept.txt', 'a').write(' child'); x, far.recv(9)"}, {code: "x, open('kept.txt').read(), child.communicate(b'child')[0], int(a.sum())"}, {code: "n = len(ticks)\nwhile len(ticks) == n: time.sleep(0.01)\nTrue"}},
			[]want{{}, {stdout: "(2, b'sent')\n"}, {stdout: "(2, 'one first', b'first')\n"}, {stdout: "True\n"}},
			[]want{{stdout: "(11, b'sent')\n"}, {stdout: "(11, 'one child', b'child', 499999500000)\n"}, {stdout: "True\n"}},
		},
		"node": {
			step{code: "const m = new Map([['a', 1]]); let n = 1; const later = new Promise(r => setTimeout(() => r(7), 50))"},
			[]step{{code: "n += 1; n"}, {code: "await later"}, {code: "console.log('begun'); while (true) {}", interruptAt: "begun"}, {code: "n"}},
			[]step{{code: "n += 10; n + m.get('a')"}, {code: "await later"}, {code: "console.log('begun'); while (true) {}", interruptAt: "begun"}, {code: "n"}},
			[]want{{}, {stdout: "2\n"}, {stdout: "7\n"}, {stdout: "begun\n", status: job.Canceled, code: 130}, {stdout: "2\n"}},
			[]want{{stdout: "12\n"}, {stdout: "7\n"}, {stdout: "begun\n", status: job.Canceled, code: 130}, {stdout: "11\n"}},
		},
		"bash": {
			step{code: "x=1; f() { echo f$x; }; cd /tmp; exec 7>kept"},
			[]step{{code: "x=2; f; echo first >&7; pwd"}, {code: "cat kept"}},
			[]step{{code: "x=3; f; echo child >&7; pwd"}, {code: "cat kept"}},
			[]want{{}, {stdout: "f2\n/tmp\n"}, {stdout: "first\n"}},
			[]want{{stdout: "f3\n/tmp\n"}, {stdout: "child\n"}},
		},
	} {
		t.Run(runtime, func(t *testing.T) {
			was, is := inBoth(t, withPauses(t, "fork-"+runtime, 4<<30), sessionOf(t, runtime), c.before, c.first, c.child)
			check(t, was, c.want...)
			check(t, is, c.wantChild...)
		})
	}
}

// TestForkContexts: all of a session's interpreters go on in its fork, and an interpreter that ends there, or is restarted, is one of its own.
func TestForkContexts(t *testing.T) {
	t.Parallel()
	open(t)
	program := sessionOf(t, "python")
	program.Languages = map[string][]string{"shell": sessionOf(t, "bash").Command}
	main, shell := sandbox.Context{Name: job.MainContext, Generation: 1}, sandbox.Context{Name: "sh", Language: "shell", Generation: 1}
	again := sandbox.Context{Name: "sh", Language: "shell", Generation: 2}
	beside := map[string]int{"sh": 1}
	was, is := inBoth(
		t, withPauses(t, "fork-contexts", 4<<30), program, step{code: "x=1", in: shell, beside: map[string]int{job.MainContext: 1}},
		[]step{{code: "y = 5; print(y)", in: main, beside: beside}, {code: "echo $x", in: shell, beside: map[string]int{job.MainContext: 1}}},
		[]step{{code: "echo $x; x=2", in: shell, beside: map[string]int{job.MainContext: 1}}, {code: "print('y' in globals())", in: main, beside: beside}, {code: "echo [$x]", in: again, beside: map[string]int{job.MainContext: 1}}},
	)
	check(t, was, want{}, want{stdout: "5\n"}, want{stdout: "1\n"})
	check(t, is, want{stdout: "1\n"}, want{stdout: "False\n"}, want{stdout: "[]\n"})
}

// TestForkRandom: what is random in a session and in its fork is not the same, though it was drawn from one state.
func TestForkRandom(t *testing.T) {
	for runtime, c := range map[string]struct{ before, draw string }{
		"python": {
			"import numpy, os, random, ssl, tempfile, uuid\nrandom.seed(7); numpy.random.seed(7); tempfile.mktemp(); ssl.RAND_bytes(8)",
			"for drawn in random.random(), numpy.random.rand(), tempfile.mktemp(), uuid.uuid4(), uuid.uuid1(), ssl.RAND_bytes(8), os.urandom(8): print(drawn)",
		},
		"node": {
			"const c = require('crypto'); const before = [Math.random(), c.randomUUID(), c.randomInt(2), c.randomBytes(1), c.generateKeyPairSync('ed25519'), await new Promise((done) => c.randomFill(Buffer.alloc(8), done))]",
			`console.log(Math.random()); console.log(Array.from({length: 3000}, Math.random).join())
for (let i = 0; i < 300; i++) console.log(c.randomUUID());
for (let i = 0; i < 1500; i++) console.log(c.randomInt(2 ** 48 - 1));
for (const n of [16, 100000]) console.log(c.randomBytes(n).toString('hex'));
console.log(crypto.getRandomValues(new Uint8Array(16)).join());
console.log(c.generateKeyPairSync('ed25519').privateKey.export({format: 'jwk'}).d);
for (let i = 0; i < 8; i++) console.log((await new Promise((done, failed) => c.randomBytes(16, (e, b) => e ? failed(e) : done(b)))).toString('hex'));`,
		},
		"bash": {"RANDOM=7", "echo $RANDOM$RANDOM$RANDOM; echo $SRANDOM"},
	} {
		t.Run(runtime, func(t *testing.T) {
			p := withPauses(t, "random-"+runtime, 4<<30)
			was, is := inBoth(t, p, sessionOf(t, runtime), step{files: []sandbox.File{{Name: "in.txt"}}, code: c.before}, []step{{code: c.draw}}, []step{{files: []sandbox.File{{Name: "in.txt/x", Content: []byte("refused: in.txt is a file")}}, code: "1", anew: true}, {code: c.draw}})
			first, child := strings.Split(strings.TrimSpace(was[1].stdout.String()), "\n"), strings.Split(strings.TrimSpace(is[1].stdout.String()), "\n")
			if was[1].Status != job.Succeeded || is[1].Status != job.Succeeded || len(first) < 2 || len(first) != len(child) {
				t.Fatalf("got %q %q and %q %q", first, was[1].stderr.String(), child, is[1].stderr.String())
			}
			for i := range first {
				if first[i] == child[i] {
					t.Errorf("both have drawn %.100s", first[i])
				}
			}
		})
	}
}
