package worker

import (
	"encoding/binary"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// TestCompiledCheckersAreBounded: the second who asks makes what is kept, nobody else meanwhile, and what was used the longest ago goes first.
func TestCompiledCheckersAreBounded(t *testing.T) {
	t.Parallel()
	var c compiledCheckers
	at := func(n int) (k compiledKey) { binary.LittleEndian.PutUint64(k[:], uint64(n)); return k } //nolint:gosec // not negative
	asks := func(n, long int, makes bool) {
		t.Helper()
		if tar, wanted := c.get(at(n)); len(tar) != long || wanted != makes {
			t.Errorf("%d: got %d bytes, to be made %t; want %d, %t", n, len(tar), wanted, long, makes)
		}
	}
	asks(1, 0, false)
	asks(1, 0, true)
	asks(1, 0, false)
	c.failed(at(1), true) // the job was over
	asks(1, 0, true)
	c.put(at(1), make([]byte, 100))
	asks(1, 100, false)
	c.giveUp(at(2))
	asks(2, 0, false)
	asks(3, 0, false)
	for range maxTries {
		asks(3, 0, true)
		c.put(at(3), make([]byte, 10)) // which can't be unpacked
		c.failed(at(3), false)
	}
	asks(3, 0, false)
	for n := range 100 {
		c.put(at(10+n), make([]byte, maxCompiled))
		asks(1, 100, false) // it is used
		if c.bytes > maxCompiledBytes || len(c.entries) != c.recent.Len() {
			t.Fatalf("%d bytes in %d and %d entries", c.bytes, len(c.entries), c.recent.Len())
		}
	}
	asks(109, maxCompiled, false)
	asks(10, 0, false)
	asks(10, 0, true)
	for n := range maxCompiledBytes/compiledCost + 10 { // jobs that come once
		asks(1000+n, 0, false)
	}
	if most := maxCompiledBytes / compiledCost; c.bytes > maxCompiledBytes || len(c.entries) != most {
		t.Errorf("%d bytes in %d entries, want %d", c.bytes, len(c.entries), most)
	}
	asks(1, 0, false)
}

// TestCompiledKey: whatever a compile step can see is in it, and the tenant.
func TestCompiledKey(t *testing.T) {
	t.Parallel()
	seen := map[compiledKey]string{}
	for name, change := range map[string]func(tenant, image *string, p *sandbox.Program){
		"none":      func(_, _ *string, _ *sandbox.Program) {},
		"tenant":    func(tenant, _ *string, _ *sandbox.Program) { *tenant = "b" },
		"image":     func(_, image *string, _ *sandbox.Program) { *image = "sha256:2" },
		"isolation": func(_, _ *string, p *sandbox.Program) { p.Isolation = job.Process },
		"command":   func(_, _ *string, p *sandbox.Program) { p.Compile = []string{"cc", "a b"} },
		"variable":  func(_, _ *string, p *sandbox.Program) { p.Env = map[string]string{"A": "2"} },
		"limit":     func(_, _ *string, p *sandbox.Program) { p.Limits.CompileMemoryMB = 2 },
		"content":   func(_, _ *string, p *sandbox.Program) { p.Files = []sandbox.File{{Name: "a", Content: []byte("2")}} },
		"name":      func(_, _ *string, p *sandbox.Program) { p.Files = []sandbox.File{{Name: "b", Content: []byte("1")}} },
		"files":     func(_, _ *string, p *sandbox.Program) { p.Files = append(p.Files, sandbox.File{Name: "b"}) },
	} {
		tenant, image := "a", "sha256:1"
		p := sandbox.Program{
			Compile: []string{"cc", "a", "b"}, Env: map[string]string{"A": "1"}, Limits: job.Limits{CompileMemoryMB: 1},
			Files: []sandbox.File{{Name: "a", Content: []byte("1")}},
		}
		change(&tenant, &image, &p)
		key, err := compiledKeyOf(tenant, image, p)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[key] = name
		p.JobID, p.Epoch, p.Command, p.Interactive = "j", 2, []string{"x"}, true
		p.Limits.WallMS, p.Limits.CPUMS, p.Limits.OutputKB, p.Limits.StackMB = 1, 2, 3, 4
		if again, err := compiledKeyOf(tenant, image, p); err != nil || again != key {
			t.Errorf("%s: another job has another key, %v", name, err)
		}
	}
}
