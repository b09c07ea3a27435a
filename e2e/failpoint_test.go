package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// file returns the path of a fail point's file, which api and worker can make.
func (g *glovebox) file(name string) string { return filepath.Join(g.dir, name) }

// reached waits until a process has come to its fail point.
func (g *glovebox) reached(name string) {
	g.tb.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(g.file(name)); err == nil {
			return
		}
		if time.Now().After(deadline) {
			g.tb.Fatalf("nobody reached fail point %s within %s", name, patience)
		}
	}
}

// goOn lets processes go on that paused at these fail points.
func (g *glovebox) goOn(names ...string) {
	g.tb.Helper()
	for _, name := range names {
		if err := os.Remove(g.file(name)); err != nil {
			g.tb.Fatal(err)
		}
	}
}

// goOnWithout kills what can come back, lets processes go on that paused, so that they meet it away, and brings it back.
func (g *glovebox) goOnWithout(away killer, names ...string) {
	g.tb.Helper()
	away.Kill()
	g.goOn(names...)
	time.Sleep(500 * time.Millisecond)
	away.Restart()
}

func (g *glovebox) failpoint(action, name string) string {
	return "GLOVEBOX_FAILPOINT=" + action + ":" + name + ":" + g.file(name)
}

// diesByItself waits until a process has killed itself at its fail point.
func diesByItself(tb testing.TB, p *gbtest.Process) {
	tb.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		tb.Fatalf("the process did not die; its output:\n%s", p.Output())
	}
}
