package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// executedIn is the result of code in a session.
func (g *glovebox) executedIn(session, code string) job.Result {
	g.tb.Helper()
	return g.wait(g.executeIn(session, code))
}

func (g *glovebox) executeIn(session, code string) string {
	g.tb.Helper()
	j, err := g.client.ExecuteInSession(g.tb.Context(), session, job.SessionExecution{Code: code})
	if err != nil {
		g.tb.Fatal(err)
	}
	return j.ID
}

// sessionEnds waits for the session's end, and for the reason.
func (g *glovebox) sessionEnds(id, reason string) {
	g.tb.Helper()
	var x job.Session
	gbtest.Eventually(g.tb, "the session has ended", func() bool {
		var err error
		x, err = g.client.Session(g.tb.Context(), id)
		return err == nil && x.Status == job.SessionEnded
	})
	if x.End == nil || x.End.Reason != reason {
		g.tb.Errorf("got %+v, want that it ended as %s", x, reason)
	}
}

// TestSession: over HTTP, with api and worker as they are installed.
func TestSession(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	ctx := t.Context()
	for runtime, lines := range map[string][3]string{
		"python": {"x = 41", "print(x + 1)", "while True: pass"},
		"node":   {"let x = 41", "console.log(x + 1)", "while (true) {}"},
		"ts":     {"let x: number = 41", "console.log(x + 1 as number)", "while (true) {}"},
		"sh":     {"x=41", "echo $((x + 1))", "while :; do :; done"},
	} {
		x, err := g.client.StartSession(ctx, job.SessionSettings{Runtime: runtime, Limits: job.Limits{MemoryMB: 128, WallMS: 60_000}})
		if err != nil {
			t.Fatal(err)
		}
		g.executedIn(x.ID, lines[0])
		if r := g.executedIn(x.ID, lines[1]); r.Stdout != "42\n" || r.Session == nil || r.Session.Sequence != 2 || r.Session.State != job.StateKept {
			t.Errorf("%s: got %+v", runtime, r)
		}
		endless := g.executeIn(x.ID, lines[2])
		gbtest.Eventually(t, "it runs", func() bool {
			now, err := g.client.Session(ctx, x.ID)
			return err == nil && now.Execution == endless
		})
		if _, err := g.client.InterruptSession(ctx, x.ID); err != nil {
			t.Fatal(err)
		}
		if r := g.wait(endless); r.Status != job.Canceled {
			t.Errorf("%s: got %+v, want it interrupted", runtime, r)
		}
		if r := g.executedIn(x.ID, lines[1]); r.Stdout != "42\n" {
			t.Errorf("%s: got %+v, want its state kept", runtime, r)
		}
		if ended, err := g.client.EndSession(ctx, x.ID); err != nil || ended.Status != job.SessionEnded {
			t.Errorf("%s: got %+v, %v", runtime, ended, err)
		}
	}
	gbtest.Eventually(t, "no container is left", func() bool { return len(g.containers()) == 0 })
}

// TestSessionResults: what an execution shows is told as it ends, is in its result and what that attests, and its files are artifacts.
func TestSessionResults(t *testing.T) {
	t.Parallel()
	g := start(t, options{workerEnv: []string{"GLOVEBOX_SIGNING_KEY=" + attest.NewSeed()}})
	ctx := t.Context()
	x, err := g.client.StartSession(ctx, job.SessionSettings{Runtime: "python", Limits: job.Limits{MemoryMB: 256, WallMS: 60_000}})
	if err != nil {
		t.Fatal(err)
	}
	const code = "import matplotlib.pyplot as plt\nplt.bar(['a'], [1])\nplt.show()\ndisplay({'text/html': '<b>'}, raw=True)\n6 * 7"
	var shown []job.Shown
	var r job.Result
	for e, err := range g.client.Watch(ctx, g.executeIn(x.ID, code), "") {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Type { //nolint:exhaustive // the others are not of results
		case producer.EventDisplay:
			shown = append(shown, e.Shown)
		case producer.EventResult:
			r = *e.Job.Result
		}
	}
	if diff := cmp.Diff(r.Results, shown); diff != "" || len(shown) != 3 || r.Stdout != "42\n" {
		t.Fatalf("the events tell other results than the result (%s): %+v", diff, r)
	}
	if chart := shown[0].Data["image/png"].Artifact; len(r.Artifacts) != 1 || r.Artifacts[0].Name != chart || shown[1].Data["text/html"].Text != "<b>" || shown[2].Kind != job.ShownValue {
		t.Errorf("got %+v", r)
	}
	if r := g.executedIn(x.ID, "1 / 0"); r.Exception == nil || r.Exception.Name != "ZeroDivisionError" || r.Exception.Traceback != r.Stderr || r.Attestation == nil {
		t.Errorf("got %+v", r)
	}
	many := g.executedIn(x.ID, "for i in range(100): display({'text/html': 'x' * 60000}, raw=True)")
	if many.Status != job.Succeeded || len(many.Results) != job.MaxShown || many.ResultsLeftOut != 100-job.MaxShown {
		t.Errorf("got %d results, %d left out", len(many.Results), many.ResultsLeftOut)
	}
}

// TestSessionEvents: a client that sends code and accepts events gets all that it prints as such, however soon it ends, and its result.
func TestSessionEvents(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	x, err := g.client.StartSession(t.Context(), job.SessionSettings{Runtime: "python", Limits: job.Limits{WallMS: 60_000}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 10 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/v1/sessions/"+x.ID+"/execute", strings.NewReader(fmt.Sprintf(`{"code":"print(%d)"}`, n)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"Bearer " + g.token}, "Accept": {"text/event-stream"}, "Content-Type": {"application/json"}}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		text := string(b)
		if err != nil || !strings.Contains(text, fmt.Sprintf("event: stdout\ndata: {\"offset\":0,\"text\":\"%d\\n\"}\n", n)) || !strings.Contains(text, "event: result\n") || strings.Contains(text, "event: gap") {
			t.Errorf("execution %d: got %v, %s", n, err, text)
		}
	}
}

// TestSessionCommand: the same from a shell.
func TestSessionCommand(t *testing.T) {
	t.Parallel()
	g := start(t, options{workerEnv: []string{"GLOVEBOX_SIGNING_KEY=" + attest.NewSeed()}})
	glovebox := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary(t, "glovebox"), args...)
		cmd.Env = append(os.Environ(), "GLOVEBOX_URL="+g.url, "GLOVEBOX_TOKEN="+g.token)
		cmd.Stderr, cmd.Stdin = t.Output(), strings.NewReader("print(x + 1)")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("glovebox %v: %v, %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run := func(args ...string) string { return glovebox(append([]string{"session"}, args...)...) }
	id := run("start", "python", "--limit", "wall_ms=60000", "--ttl", "10m", "--metadata", "k=v")
	run("exec", id, "x = 41")
	if got := run("exec", id, "-"); got != "42" {
		t.Errorf("got %q, want 42", got)
	}
	small, large := filepath.Join(t.TempDir(), "small.txt"), filepath.Join(t.TempDir(), "large.txt")
	for path, n := range map[string]int{small: 10, large: 1_000_000} {
		if err := os.WriteFile(path, bytes.Repeat([]byte("x"), n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := run("exec", "--file", small, "--file", "in/l.txt="+large, id, "import os; print(os.path.getsize('small.txt') + os.path.getsize('in/l.txt'))"); got != "1000010" {
		t.Errorf("got %q, want the files' sizes", got)
	}
	run("extend", id, "--ttl", "80m", "--idle", "75m")
	if got := run("show", id); !strings.Contains(got, `"idle_seconds": 4500`) {
		t.Errorf("got %s, want it extended", got)
	}
	if got := run("list"); !strings.Contains(got, id) || !strings.Contains(got, "ready") {
		t.Errorf("got %s, want the session", got)
	}
	transcript := filepath.Join(t.TempDir(), "transcript.jsonl")
	if err := os.WriteFile(transcript, []byte(run("transcript", id)), 0o600); err != nil {
		t.Fatal(err)
	}
	var x job.Session
	if err := json.Unmarshal([]byte(run("show", id)), &x); err != nil || x.Attested != 3 {
		t.Fatalf("got %+v, %v, want three that are attested", x, err)
	}
	if got := glovebox("verify", "--session", "--head", x.Head, "--count", "3", transcript); !strings.HasSuffix(got, "\n  head "+x.Head) {
		t.Errorf("got %s, want the head and nothing that can't be seen", got)
	}
	lines := strings.SplitAfter(run("transcript", id), "\n")
	cut := filepath.Join(t.TempDir(), "cut.jsonl")
	if err := os.WriteFile(cut, []byte(strings.Join(lines[:2], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := glovebox("verify", "--session", cut); !strings.Contains(got, "can't be seen") {
		t.Errorf("got %s, want that it may be cut off", got)
	}
	refusing := exec.CommandContext(t.Context(), binary(t, "glovebox"), "verify", "--session", "--head", x.Head, cut)
	refusing.Env = append(os.Environ(), "GLOVEBOX_URL="+g.url, "GLOVEBOX_TOKEN="+g.token)
	if out, err := refusing.Output(); refusing.ProcessState.ExitCode() != 1 || string(out) != "REJECTED\n" {
		t.Errorf("got %s, %v, want that what is cut off is rejected", out, err)
	}
	if got := glovebox("verify", "--session", transcript); !strings.HasPrefix(got, "verified  session "+id+"\n  1  ") || !strings.Contains(got, "\n  3  ") || !strings.Contains(got, "\n  head ") {
		t.Errorf("got %s, want three executions", got)
	}
	run("end", id)
	if got := run("show", id); !strings.Contains(got, job.EndDeleted) {
		t.Errorf("got %s, want that it was deleted", got)
	}
}
