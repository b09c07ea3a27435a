package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// typist sits at a terminal of script(1)'s, in which a glovebox command runs.
type typist struct {
	tb     testing.TB
	cmd    *exec.Cmd
	keys   io.Writer
	screen gbtest.Buffer
	read   int // how much of the screen was looked at
}

func (g *glovebox) atTerminal(args ...string) *typist {
	g.tb.Helper()
	line := fmt.Sprintf("exec %s %s", binary(g.tb, "glovebox"), strings.Join(args, " "))
	t := &typist{tb: g.tb, cmd: exec.CommandContext(g.tb.Context(), "script", "-qefc", line, "/dev/null")}
	t.cmd.Env = append(os.Environ(), "GLOVEBOX_URL="+g.url, "GLOVEBOX_TOKEN="+g.token, "TERM=xterm-kitty", "KITTY_WINDOW_ID=1", "SHELL=/bin/sh", "TMUX=", "XDG_STATE_HOME="+g.dir+"/state")
	t.cmd.Stdout, t.cmd.Stderr = &t.screen, &t.screen
	keys, err := t.cmd.StdinPipe()
	if err != nil {
		g.tb.Fatal(err)
	}
	t.keys = keys
	if err := t.cmd.Start(); err != nil {
		g.tb.Fatal(err)
	}
	g.tb.Cleanup(func() {
		_ = t.cmd.Process.Kill()
		if g.tb.Failed() {
			g.tb.Logf("the screen:\n%q", t.screen.String())
		}
	})
	return t
}

// sees waits for text behind what was seen before.
func (t *typist) sees(text string) {
	t.tb.Helper()
	gbtest.Eventually(t.tb, fmt.Sprintf("%q is on the screen", text), func() bool {
		at := strings.Index(t.screen.String()[t.read:], text)
		if at >= 0 {
			t.read += at + len(text)
		}
		return at >= 0
	})
}

func (t *typist) types(keys string) {
	t.tb.Helper()
	if _, err := io.WriteString(t.keys, keys); err != nil {
		t.tb.Fatal(err)
	}
}

const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABc3UBGAAAAABJRU5ErkJggg=="

// TestRepl: what is typed at a terminal goes on from the line before, through errors, an interrupt and a lost state.
func TestRepl(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	dir := t.TempDir()
	p := g.atTerminal("repl", "--out", dir, "--limit", "wall_ms=300000")
	p.sees("session ")
	for _, step := range []struct{ types, sees string }{
		{"x = 41\r", "\n"},
		{"x + 1\r", "42\r\n"},
		{"def f():\r    return x * 2\r\r", "... "},
		{"f()\r", "82\r\n"},
		{"\x1b[200~for i in range(2):\n\tprint('pasted', i)\n\x1b[201~\r", "pasted 1\r\n"},
		{"thrown away\x03", "\n"},
		{"1/0\r", "ZeroDivisionError"},
		{"import time; print('be' + 'gun', flush=True); [time.sleep(0.1) for _ in iter(int, 1)]\r", "begun\r\n"},
		{"\x03", "KeyboardInterrupt"},
		{"x\r", "41\r\n"},
		{fmt.Sprintf("import base64; n = open('dot.png', 'wb').write(base64.b64decode('%s'))\r", onePixel), "\x1b_Ga=T,f=100,q=2,m=0;"},
		{"print('\\x1b]0;title\\x07')\r", "^[]0;title^G"},
		{"import os; os._exit(3)\r", "all names are lost"},
		{"print('x' in globals(), os.path.exists('dot.png') if 'os' in globals() else None)\r", "False None\r\n"},
	} {
		if step.types != "\x03" { // which is for code that runs
			p.sees(">>> ")
		}
		p.types(step.types)
		p.sees(step.sees)
	}
	if b, err := os.ReadFile(dir + "/dot.png"); err != nil || base64.StdEncoding.EncodeToString(b) != onePixel {
		t.Errorf("got %d bytes, %v, of the picture", len(b), err)
	}
	p.sees(">>> ")
	p.types("\x04")
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("got %v", err)
	}
	page, err := g.client.ListSessions(t.Context(), producer.SessionListOptions{})
	if err != nil || len(page.Sessions) != 1 || page.Sessions[0].End == nil || page.Sessions[0].End.Reason != job.EndDeleted {
		t.Errorf("got %+v, %v, want one session that was deleted", page, err)
	}
	const up = "\x1b[A"
	p = g.atTerminal("repl", "--limit", "wall_ms=300000")
	p.sees(">>> ")
	p.types(up + "\r") // the last line of the session before
	p.sees("False None\r\n")
	p.sees(">>> ")
	p.types("print('ne' + 'w')\r")
	p.sees("new\r\n")
	p.sees(">>> ")
	p.types("exit\r")
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("got %v", err)
	}
	b, err := os.ReadFile(g.dir + "/state/glovebox/history-python")
	if err != nil || !strings.Contains(string(b), "print('ne' + 'w')\nexit\n") || strings.Contains(string(b), "thrown away") {
		t.Errorf("got %q, %v, want what was typed and sent", b, err)
	}
}

// TestReplGoesOn: a session that is named is left as it is, and one that has ended is refused.
func TestReplGoesOn(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	x, err := g.client.StartSession(t.Context(), job.SessionSettings{Runtime: "node"})
	if err != nil {
		t.Fatal(err)
	}
	p := g.atTerminal("repl", "--session", x.ID)
	for _, step := range []struct{ types, sees string }{
		{"let x = [\r1, 2\r]\r\r", "\n"},
		{"x.length\r", "2\r\n"},
	} {
		p.sees("> ")
		p.types(step.types)
		p.sees(step.sees)
	}
	p.sees("> ")
	p.types("exit\r")
	p.sees("the session goes on: glovebox repl --session " + x.ID)
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("got %v", err)
	}
	if _, err := g.client.EndSession(context.WithoutCancel(t.Context()), x.ID); err != nil {
		t.Fatal(err)
	}
	p = g.atTerminal("repl", "--session", x.ID)
	p.sees("has ended (deleted)")
	if err := p.cmd.Wait(); err == nil {
		t.Error("it went on with a session that has ended")
	}
}
