package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/job"
)

// shell runs the command glovebox, and returns what it prints and its exit code.
func (g *glovebox) shell(args ...string) (stdout string, code int) {
	g.tb.Helper()
	cmd := exec.CommandContext(g.tb.Context(), binary(g.tb, "glovebox"), args...)
	cmd.Env = append(os.Environ(), "GLOVEBOX_URL="+g.url, "GLOVEBOX_TOKEN="+g.token)
	cmd.Stderr = g.tb.Output()
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		g.tb.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestSessionReplay: of a session of 50 steps, a replay says which come to the same and what differs of the others, and the new session has
// their state. A replay up to the step before is the same as a whole. In a transcript, no byte of code can be changed.
func TestSessionReplay(t *testing.T) {
	t.Parallel()
	g := start(t, options{workerEnv: []string{"GLOVEBOX_SIGNING_KEY=" + attest.NewSeed(), "GLOVEBOX_LABELS=zone=eu"}})
	ctx := t.Context()
	x, err := g.client.StartSession(ctx, job.SessionSettings{Runtime: "python", Limits: job.Limits{MemoryMB: 256, WallMS: 60_000}, Env: map[string]string{"WORD": "seed"}, Placement: job.Labels{"zone": "eu"}})
	if err != nil {
		t.Fatal(err)
	}
	special := map[int]job.SessionExecution{
		1:  {Code: "import os, time\nn = 0\nprint(os.environ['WORD'])"},
		7:  {Files: []job.File{{Name: "data.txt", Content: strings.Repeat("line\n", 10)}}},
		8:  {Code: "print(len(open('data.txt').read())); open('out.txt', 'w').write('out')"},
		15: {Code: "1/0"},
		21: {Code: "print(n) # " + strings.Repeat("long ", 2000)}, // the bucket has it
		22: {Code: "print('x' * 100_000)"},                        // and what this prints
		30: {Code: "import sys; print(time.time_ns()); print(time.time_ns(), file=sys.stderr)"},
		31: {Code: "while True: pass", WallMS: 500},
		37: {Code: "_ = open('now.txt', 'w').write(str(time.time_ns()))"},
		42: {Code: "os._exit(3)"}, // the state is lost in each
		43: {Code: "n = 43; print('n' in globals(), 'time' in globals())"},
		44: {Code: "import time; n += 1; display({'text/html': str(time.time_ns())}, raw=True)"},
		50: {Code: "import time; print(time.time_ns())"},
	}
	for i := 1; i <= 50; i++ {
		e, ok := special[i]
		if !ok {
			e = job.SessionExecution{Code: "n += 1; print(n)"}
		}
		j, err := g.client.ExecuteInSession(ctx, x.ID, e)
		if err != nil {
			t.Fatal(err)
		}
		if r := g.wait(j.ID); r.Session == nil || r.Session.Sequence != int64(i) {
			t.Fatalf("step %d: got %+v", i, r)
		}
	}
	if _, err := g.client.EndSession(ctx, x.ID); err != nil { // it is lost
		t.Fatal(err)
	}
	out, code := g.shell("session", "replay", x.ID)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 1 || len(lines) != 51 {
		t.Fatalf("got exit code %d and %s", code, out)
	}
	differing := map[int]string{30: "differs: stdout, stderr", 37: "differs: artifacts", 44: "differs: results", 50: "differs: stdout"}
	for i := 1; i <= 50; i++ {
		want := differing[i]
		if want == "" {
			want = "same"
		}
		if got := strings.Join(strings.Fields(lines[i]), " "); got != fmt.Sprintf("%d %s", i, want) {
			t.Errorf("got %q, want %d %s", got, i, want)
		}
	}
	again := strings.TrimPrefix(lines[0], "session ")
	if r := g.executedIn(again, "print(n, len(open('data.txt').read()))"); r.Stdout != "49 50\n" || r.Session.Sequence != 51 {
		t.Errorf("got %+v, want that the new session goes on", r)
	}
	if y, err := g.client.Session(ctx, again); err != nil || y.Placement["zone"] != "eu" {
		t.Errorf("got %v, %v, want the placement of the session that is replayed", y.Placement, err)
	}
	if _, code := g.shell("session", "get", x.ID, "data.txt"); code != 1 {
		t.Errorf("a file of an ended session: got exit code %d, want 1", code)
	}
	if out, code := g.shell("session", "replay", x.ID, "--upto", "29", "--end"); code != 0 || strings.Count(out, "same") != 29 {
		t.Errorf("got exit code %d and %s", code, out)
	}
	g.verifyTranscript(x.ID)
	if out, code := g.shell("session", "notebook", x.ID); code != 0 || strings.Count(out, `"cell_type":"code"`) != 49 || !strings.Contains(out, "ZeroDivisionError") {
		t.Errorf("got exit code %d and %s", code, out)
	}
	g.purgeAt(x.ID, 7)
	if _, code := g.shell("session", "replay", x.ID); code != 1 {
		t.Errorf("without its seventh step: got exit code %d, want 1", code)
	}
}

// verifyTranscript checks that a transcript verifies, and doesn't once a byte of code or of a file is another.
func (g *glovebox) verifyTranscript(session string) {
	g.tb.Helper()
	whole, _ := g.shell("session", "transcript", session)
	file := filepath.Join(g.tb.TempDir(), "transcript.jsonl")
	verify := func(text string) (string, int) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			g.tb.Fatal(err)
		}
		return g.shell("verify", "--session", file)
	}
	if out, code := verify(whole); code != 0 || !strings.Contains(out, "\n  50  ") || strings.Contains(out, "not here") {
		g.tb.Errorf("got exit code %d and %s", code, out)
	}
	for name, changed := range map[string]string{
		"code":        strings.Replace(whole, `n += 1; print(n)`, `n += 1; print(m)`, 1),
		"large code":  strings.Replace(whole, `long long`, `long_long`, 1),
		"a file":      strings.Replace(whole, `line\nline`, `line\nLine`, 1),
		"a result":    strings.Replace(whole, `"text/plain":"3"`, `"text/plain":"4"`, 1),
		"an error":    strings.Replace(whole, `"value":"division by zero"`, `"value":"division by one"`, 1),
		"environment": strings.Replace(whole, `"WORD":"seed"`, `"WORD":"seeD"`, 1),
		"output":      strings.Replace(whole, `"stdout":"1\n"`, `"stdout":"2\n"`, 1),
	} {
		if changed == whole {
			g.tb.Errorf("%s: nothing has changed", name)
		}
		if out, code := verify(changed); code != 1 || !strings.Contains(out, "REJECTED") {
			g.tb.Errorf("%s: got exit code %d and %s", name, code, out)
		}
	}
	if out, code := verify(regexp.MustCompile(`,"input":\{[^\n]*\}\}`).ReplaceAllString(whole, "}")); code != 0 || strings.Count(out, "its code is not here") != 50 {
		g.tb.Errorf("without code: got exit code %d and %s", code, out)
	}
}

// purgeAt purges the execution of that number.
func (g *glovebox) purgeAt(session string, number int64) {
	g.tb.Helper()
	for e, err := range g.client.Transcript(g.tb.Context(), session) {
		if err != nil {
			g.tb.Fatal(err)
		}
		if e.Session != nil && e.Session.Sequence == number {
			if err := g.client.Purge(g.tb.Context(), e.ID); err != nil {
				g.tb.Fatal(err)
			}
			return
		}
	}
	g.tb.Fatalf("there is no execution %d", number)
}

// TestSessionReplayInterrupted: who interrupts a replay whose session was to be ended leaves none behind.
func TestSessionReplayInterrupted(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	x, err := g.client.StartSession(t.Context(), job.SessionSettings{Runtime: "python", Limits: job.Limits{MemoryMB: 256}})
	if err != nil {
		t.Fatal(err)
	}
	g.executedIn(x.ID, "print(1)")
	g.executedIn(x.ID, "import time; time.sleep(3)")
	cmd := exec.CommandContext(t.Context(), binary(t, "glovebox"), "session", "replay", "--end", x.ID)
	cmd.Env = append(os.Environ(), "GLOVEBOX_URL="+g.url, "GLOVEBOX_TOKEN="+g.token)
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "session ") {
		t.Fatalf("got %q, want the new session's id", lines.Text())
	}
	id := strings.TrimPrefix(lines.Text(), "session ")
	if !lines.Scan() { // the first execution: the second one sleeps
		t.Fatal("got no step")
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the interrupted replay ended well")
	}
	if y, err := g.client.Session(t.Context(), id); err != nil || y.End == nil {
		t.Errorf("got %+v, %v, want the new session ended", y, err)
	}
}
