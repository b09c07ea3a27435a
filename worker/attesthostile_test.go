package worker_test

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
)

// attestationAttacks are executions that go for what is attested of those that follow.
var attestationAttacks = map[string]string{
	"frames to all descriptors": `
import os, struct
frame = lambda kind, body=b'': struct.pack('>BI', kind, len(body)) + body
words = [frame(69, b'forged\n'), frame(81, b'{"exit_code":0}'), frame(71, b'{"exit_code":0}'), frame(77, b'{}'), b'\0' + b'0' * 32 + b' 0\0', b' 0\0', b'\0']
def send(fd):
    try:
        for word in words: os.write(fd, word)
    except OSError:
        pass
own = {os.fstat(n).st_ino for n in (1, 2)}
for path in [f'/proc/{p}/fd/{n}' for p in ('1', 'self', str(os.getppid())) for n in range(64)]:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        continue
    if os.fstat(fd).st_ino not in own: send(fd)
for fd in range(3, 256): send(fd)
`,
	"its own token": `
import os, sys, threading, time
frame = sys._getframe()
while 'token' not in frame.f_locals: frame = frame.f_back
token = frame.f_locals['token']
os.write(5, b'\0' + token + b' {"kind":"value","data":{"text/plain":"forged"}}\0\0' + token + b' 0\0' + (token + b' 0\0') * 9)
print('late'); time.sleep(1); print('later')
`,
	"a daemon that prints": `
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    while True:
        os.write(1, b'from before\n'); os.write(2, b'from before\n')
        time.sleep(0.01)
`,
	"threads that print": `
import threading, time, os
def go_on():
    while True:
        os.write(1, b'from before\n')
        print('in python', flush=True)
        time.sleep(0.01)
for _ in range(4): threading.Thread(target=go_on, daemon=True).start()
`,
	"a patched interpreter": `
import builtins, sys, json, _json, ast, linecache, os, signal, traceback
real, write = compile, os.write
builtins.compile = lambda source, *a, **k: real('print("forged")' if isinstance(source, str) else source, *a, **k)
ast.parse = lambda *a, **k: 1 / 0
sys.displayhook = lambda value: write(1, b'forged value\n')
json.dumps = json.loads = _json.encode_basestring = lambda *a, **k: '"forged"'
traceback.TracebackException = None
os.write = lambda fd, data: write(fd, data.replace(b' 1\0', b' 0\0'))
class Twice:
    def __init__(self, to): self.to = to
    def write(self, text): self.to.write('forged ' + text); return len(text)
    def flush(self): self.to.flush()
    closed = False
sys.stdout = Twice(sys.stdout)
`,
	"exit handlers": `
import atexit, os, sys
def last():
    print('from a handler', flush=True)
    if os.fork() == 0:
        while True: os.write(1, b'from a child\n'); __import__('time').sleep(0.01)
atexit.register(last)
sys.exit(last)
`,
	"its end": `
import atexit, os
atexit.register(lambda: os.write(1, b'from a handler\n'))
atexit._run_exitfuncs()
os.kill(os.getpid(), 15)
`,
	"another interpreter": `
import os, sys
os.set_inheritable(5, True)
frame = sys._getframe()
while 'token' not in frame.f_locals: frame = frame.f_back
os.execv(sys.executable, ['python3', '-c', '''
import os, sys
token = sys.argv[1].encode()
while True:
    os.write(1, b"forged by another\\n")
    os.write(5, b"\\0" + token + b" 0\\0")
    piece = b""
    while not piece.endswith(b"\\0"): piece += os.read(5, 65536) or sys.exit()
    token = piece.partition(b"\\n")[0]
''', frame.f_locals['token'].decode()])
`,
	"what is sent to the next": `
import os
fd = os.dup(5)
if os.fork() == 0:
    while True:
        piece = os.read(fd, 65536)
        os.write(1, b'stolen\n')
        os.write(fd, b'\0' + piece.partition(b'\n')[0] + b' 0\0')
`,
}

// TestSessionAttestedHostile: whatever an execution does to those that follow, what is attested of each is the code that was given, and the bytes that went out as it was executed. What they are worth is for the reader of the whole transcript.
func TestSessionAttestedHostile(t *testing.T) {
	t.Parallel()
	signer, err := attest.NewSigner(attest.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	g := start(t, func(c *worker.Config) { sessionWorker(c); c.Signer = signer })
	names := slices.Sorted(maps.Keys(attestationAttacks))
	if testing.Short() {
		names = []string{"a daemon that prints", "another interpreter", "frames to all descriptors", "its own token"}
	}
	for _, name := range names {
		id := g.openSession(job.SessionSettings{Runtime: "python", Limits: job.Limits{WallMS: 60_000}})
		waits := g.execute(id, "print('begun', flush=True)\nwhile True: pass") // until all others are watched
		codes := []string{attestationAttacks[name], "print('mine')", "1 / 0", "x = 1\nimport sys; print('mine too', file=sys.stderr)\nx"}
		executions := []string{waits}
		for _, code := range codes {
			executions = append(executions, g.execute(id, code))
		}
		g.begun(waits)
		for _, execution := range executions {
			if _, err := g.records.Watch(t.Context(), execution); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := g.records.Cancel(t.Context(), waits, nil); err != nil {
			t.Fatal(err)
		}
		var transcript []job.Executed
		for _, execution := range executions {
			r := g.result(execution)
			j, err := g.records.Get(t.Context(), execution)
			if err != nil || j.Spec == nil {
				t.Fatalf("%s: the record has %v, %v", name, j.Spec, err)
			}
			transcript = append(transcript, job.Executed{Result: r, Input: &job.ExecutionInput{Code: j.Spec.Source}})
		}
		got, err := attest.VerifySession(transcript, []attest.Key{signer.Key()})
		if err != nil || len(got.Executions) != len(executions) || len(got.Unchecked)+len(got.Unattested) > 0 {
			t.Fatalf("%s: got %+v, %v", name, got, err)
		}
		for i, verified := range got.Executions {
			if i > 0 && transcript[i].Input.Code != codes[i-1] {
				t.Errorf("%s: execution %d is recorded with other code: %s", name, i+1, transcript[i].Input.Code)
			}
			for stream, attested := range map[record.EventType]attest.Stream{record.EventStdout: verified.Statement.Predicate.Stdout, record.EventStderr: verified.Statement.Predicate.Stderr} {
				streamed := g.streamed(executions[i], stream)
				sum := sha256.Sum256([]byte(streamed))
				if attested.SHA256 != hex.EncodeToString(sum[:]) || attested.Size != int64(len(streamed)) {
					t.Errorf("%s: execution %d: %s: %d bytes are attested, %d were streamed: %.300q", name, i+1, stream, attested.Size, len(streamed), streamed)
				}
			}
		}
		t.Logf("%s: %s", name, outcomes(transcript))
		if err := g.records.EndSession(t.Context(), id, "", job.SessionEnd{Reason: job.EndDeleted}); err != nil {
			t.Fatal(err)
		}
	}
}

// outcomes says in short what became of executions.
func outcomes(executions []job.Executed) string {
	var all []string
	for _, e := range executions {
		all = append(all, string(e.Status)+" "+e.Session.State+" "+strings.ReplaceAll(e.Stdout[:min(len(e.Stdout), 40)], "\n", "|"))
	}
	return strings.Join(all, ", ")
}

// streamed is all that an execution's stream has of one of its streams.
func (g *glovebox) streamed(id string, kind record.EventType) string {
	g.t.Helper()
	var all strings.Builder
	for last := ""; ; {
		events, err := g.records.Events(g.t.Context(), id, last, 100)
		if err != nil {
			g.t.Fatal(err)
		}
		if len(events) == 0 {
			return all.String()
		}
		for _, e := range events {
			if last = e.ID; e.Type == kind {
				all.Write(e.Data)
			}
		}
	}
}
