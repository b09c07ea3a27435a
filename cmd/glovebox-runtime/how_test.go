package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAskHow: as a worker answers, so a sandbox is started, and never in another way.
func TestAskHow(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "root.erofs")
	if err := os.WriteFile(root, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := strings.Repeat("a", 64)
	one := func(answer byte) func(*net.UnixConn) {
		return func(c *net.UnixConn) { _, _ = c.Write([]byte{answer}) }
	}
	tests := []struct {
		name     string
		answer   func(c *net.UnixConn) // the worker's
		without  string                // the annotation that is missing: the worker must not be asked
		snapshot bool
		waits    bool   // the worker waits for the control socket
		says     string // part of the error
	}{
		{name: "plainly", answer: one(0)},
		{name: "for its control socket", answer: one(startForControl), waits: true},
		{name: "from a snapshot", answer: func(c *net.UnixConn) { give(t, c, startFromSnapshot, 3) }, snapshot: true},
		{name: "from a paused one", answer: func(c *net.UnixConn) { give(t, c, startFromSnapshot|startForControl, 1) }, snapshot: true, waits: true},
		{name: "from a snapshot without files", answer: one(startFromSnapshot), says: "has 0 files"},
		{name: "from two files", answer: func(c *net.UnixConn) { give(t, c, startFromSnapshot, 2) }, says: "has 2 files"},
		{name: "in a way that is not known", answer: one(4), says: "its answer 4"},
		{name: "plainly with files", answer: func(c *net.UnixConn) { give(t, c, 0, 3) }, says: "has 3 files"},
		{name: "no answer", answer: func(*net.UnixConn) {}, says: "waits for no sandbox"},
		{name: "no root image", without: rootSource},
		{name: "nobody's worker", without: pipesAnnotation},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path, heard := fakeWorker(t, tt.answer)
			var s sandboxState
			s.Spec.Annotations = map[string]string{pipesAnnotation: path, rootSource: root}
			delete(s.Spec.Annotations, tt.without)
			h, err := askHow(root, s, id)
			defer h.close()
			said := heard()
			if tt.without != "" && said != "" {
				t.Errorf("the worker was asked %q", said)
			}
			if tt.without == "" {
				madeOf, _ := identity(root, s)
				if !strings.HasPrefix(said, "s"+id) || said[67:] != madeOf {
					t.Errorf("the worker was asked %q", said)
				}
			}
			if (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want an error with %q", err, tt.says)
			}
			if err == nil && ((h.snapshot != nil) != tt.snapshot || (h.worker >= 0) != tt.waits || h.special() != (tt.snapshot || tt.waits)) {
				t.Errorf("got %+v", h)
			}
		})
	}
}

// TestIdentity: whatever replaces a file that a sandbox is made of, the identity is another.
func TestIdentity(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var s sandboxState
	runsc, root, agent := filepath.Join(dir, "runsc"), filepath.Join(dir, "root"), filepath.Join(dir, "agent")
	s.Spec.Annotations = map[string]string{rootSource: root}
	s.Spec.Mounts = []mount{{Type: "erofs", Source: agent}, {Type: "tmpfs", Source: "tmpfs"}}
	seen := map[string]string{}
	write := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(runsc, "runsc")
	write(root, "root")
	write(agent, "agent")
	for _, what := range []string{"at first", "another runsc", "another root", "another agent"} {
		switch what {
		case "another runsc":
			write(runsc, "csnur")
		case "another root":
			write(root, "toor")
		case "another agent":
			write(agent, "a longer agent")
		}
		got, err := identity(runsc, s)
		if err != nil {
			t.Fatal(err)
		}
		if before, ok := seen[got]; ok {
			t.Errorf("%s: the identity is that of %s", what, before)
		}
		seen[got] = what
		if again, _ := identity(runsc, s); again != got {
			t.Errorf("%s: got %s, then %s", what, got, again)
		}
	}
	if err := os.Remove(agent); err != nil {
		t.Fatal(err)
	}
	if got, err := identity(runsc, s); err == nil {
		t.Errorf("without the agent: got %s", got)
	}
}
