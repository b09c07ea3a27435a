package podman

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWhoseMemory: a sandbox that is killed as the host is out of memory has not come to its own limit.
func TestWhoseMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, events  string
		own, ofOthers bool
	}{
		{"nothing happened", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n", false, false},
		{"reached its limit, and went on", "max 7\noom 1\noom_kill 0\n", false, false},
		{"killed at its limit", "max 7\noom 1\noom_kill 3\noom_group_kill 1\n", true, false},
		{"killed for others", "max 7\noom 0\noom_kill 3\noom_group_kill 1\n", false, true},
		{"removed", "", false, false},
	} {
		dir := t.TempDir()
		if c.events != "" {
			if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte(c.events), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		g, err := openCgroup(filepath.Dir(dir), filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		if own, others := g.OOMKilled(), g.killedForOthers(); own != c.own || others != c.ofOthers {
			t.Errorf("%s: got killed for its own memory: %t, for others': %t", c.name, own, others)
		}
		g.close()
	}
}
