package worker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// TestCompiledCheckersAreBounded: the second job that asks makes the archive, and no other job does meanwhile. The archive that was used the longest ago goes first.
func TestCompiledCheckersAreBounded(t *testing.T) {
	t.Parallel()
	var c compiledCheckers
	at := func(n int) (k compiledKey) { binary.LittleEndian.PutUint64(k[:], uint64(n)); return k } //nolint:gosec // not negative
	asks := func(n, long int, makes bool) (tar []byte) {
		t.Helper()
		tar, wanted := c.get(at(n), true)
		if len(tar) != long || wanted != makes {
			t.Errorf("%d: got %d bytes, to be made %t; want %d, %t", n, len(tar), wanted, long, makes)
		}
		return tar
	}
	asks(1, 0, false)
	if _, wanted := c.get(at(1), false); wanted {
		t.Error("who may not make it is to")
	}
	asks(1, 0, true)
	asks(1, 0, false)
	for range maxTries { // the job was over
		c.failed(at(1), false)
		asks(1, 0, true)
	}
	c.put(at(1), make([]byte, 100))
	asks(1, 100, false)
	c.giveUp(at(2))
	asks(2, 0, false)
	c.unusable(at(2), []byte{1})
	c.doubt(at(2))
	asks(2, 0, false)
	asks(3, 0, false)
	for range maxTries {
		asks(3, 0, true)
		c.put(at(3), make([]byte, 10))
		tar := asks(3, 10, false)
		c.unusable(at(3), make([]byte, 10)) // which was replaced
		asks(3, 10, false)
		c.unusable(at(3), tar)
		c.unusable(at(3), tar) // another job had it, too
	}
	asks(3, 0, false)
	asks(4, 0, false)
	for range maxTries + 1 {
		asks(4, 0, true)
		c.doubt(at(4)) // it is being made
		asks(4, 0, false)
		c.put(at(4), make([]byte, 10))
		c.doubt(at(4))
	}
	c.doubt(at(5))
	asks(5, 0, false)
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

// packs are sandboxes in which a compile step takes so long, and tar ends like that.
type packs struct {
	Sandboxes

	end     sandbox.Outcome
	tar     string
	tarEnds job.Status // "": the sandbox ends before
	err     error
}

func (f packs) Run(ctx context.Context, p sandbox.Program, sink sandbox.Sink) (sandbox.Outcome, error) {
	if _, ok, err := p.Tests.Next(ctx); !ok || err != nil {
		return sandbox.Outcome{}, fmt.Errorf("no test, %w", err)
	}
	if f.tarEnds != "" {
		if err := errors.Join(sink.Stdout([]byte(f.tar)), p.Tests.Ended(ctx, sandbox.TestOutcome{Status: f.tarEnds})); err != nil {
			return sandbox.Outcome{}, err
		}
	}
	return f.end, f.err
}

// TestPack: what is kept, what is made once more, and what never.
func TestPack(t *testing.T) {
	t.Parallel()
	compiled := func(ms int64) sandbox.Outcome {
		return sandbox.Outcome{Status: job.Succeeded, ImageDigest: "sha256:1", Compile: &job.Compile{WallMS: ms}}
	}
	for name, c := range map[string]struct {
		packs

		over bool
		want compiledState
		// tries are counted where the next may have better luck.
		tries int
	}{
		"kept":              {packs: packs{end: compiled(200), tar: "x", tarEnds: job.Succeeded}, want: isKept},
		"quick":             {packs: packs{end: compiled(199), tar: "x", tarEnds: job.Succeeded}, want: isNotKept},
		"too much":          {packs: packs{end: compiled(200), tar: "x", tarEnds: job.OutputLimitExceeded}, want: isNotKept},
		"tar fails":         {packs: packs{end: compiled(200), tar: "x", tarEnds: job.Failed}, tries: 1},
		"tar says nothing":  {packs: packs{end: compiled(200), tarEnds: job.Succeeded}, tries: 1},
		"does not compile":  {packs: packs{end: sandbox.Outcome{Status: job.CompileFailed, ImageDigest: "sha256:1"}}, tries: 1},
		"sandbox is lost":   {packs: packs{end: sandbox.Outcome{Status: job.OutOfMemory, ImageDigest: "sha256:1", Lost: true}}, tries: 1},
		"Podman is away":    {packs: packs{err: fmt.Errorf("start: %w", sandbox.ErrUnavailable)}},
		"another error":     {packs: packs{err: errors.New("the agent broke off")}, tries: 1},
		"job is over":       {packs: packs{err: context.Canceled}, over: true},
		"of another image":  {packs: packs{end: sandbox.Outcome{Status: job.Succeeded, ImageDigest: "sha256:2", Compile: &job.Compile{WallMS: 200}}, tar: "x", tarEnds: job.Succeeded}},
		"without its times": {packs: packs{end: sandbox.Outcome{Status: job.Succeeded, ImageDigest: "sha256:1"}, tar: "x", tarEnds: job.Succeeded}, tries: 1},
	} {
		w := &Worker{Config: Config{Sandboxes: c.packs, Log: slog.New(slog.DiscardHandler)}}
		p := &checkerProgram{worker: w, image: "sha256:1", key: compiledKey{1}}
		ctx, cancel := context.WithCancel(t.Context())
		if c.over {
			cancel()
		}
		w.compiled.get(p.key, true)
		w.compiled.get(p.key, true)
		tar := p.pack(ctx)
		cancel()
		if e := w.compiled.entry(p.key); e.state != c.want || e.tries != c.tries || string(tar) != string(e.tar) || (len(tar) > 0) != (c.want == isKept) {
			t.Errorf("%s: got %+v and %q", name, *e, tar)
		}
	}
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
