package podman_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// pattern is size bytes that are made while they are read.
type pattern struct{ left int64 }

func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(b)), p.left)
	for i := range b[:n] {
		b[i] = byte((p.left - int64(i)) % 251)
	}
	p.left -= n
	return int(n), nil
}

func opened(r io.Reader) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(r), nil }
}

// TestBigInput: what the worker holds in memory doesn't grow with an input that is read from elsewhere.
func TestBigInput(t *testing.T) {
	// Not parallel: it looks at the process's memory.
	sandboxes := open(t)
	const mb = 200
	sum := sha256.New()
	if _, err := io.Copy(sum, &pattern{mb << 20}); err != nil {
		t.Fatal(err)
	}
	p := bash("sha256sum < in/big; wc -c < empty", limits(job.Limits{DiskMB: mb + 8, MemoryMB: mb + 128, WallMS: 300_000}))
	p.Files = append(p.Files, sandbox.File{Name: "in/big", Size: mb << 20, Open: opened(&pattern{mb << 20})}, sandbox.File{Name: "empty", Open: opened(strings.NewReader(""))})
	p.Image = suite.image
	before := held()
	watch := &watcher{}
	p.Files[1].Open = opened(io.TeeReader(&pattern{mb << 20}, watch))
	k := &kept{}
	o, err := sandboxes.Run(t.Context(), p, k)
	if err != nil {
		t.Fatal(err)
	}
	if want := hex.EncodeToString(sum.Sum(nil)) + "  -\n0\n"; o.Status != job.Succeeded || k.stdout.String() != want || len(k.artifacts) != 0 {
		t.Errorf("got %+v, %q, artifacts %s; want %q", o, k.stdout.String(), k.names(), want)
	}
	grew := watch.most - before
	t.Logf("%d KiB held before, at most %d KiB more", before>>10, grew>>10)
	if grew > 8<<20 {
		t.Errorf("%d KiB more were held, want at most 8 MiB", grew>>10)
	}
}

// TestInputThatFails: what an input fails with is what the run fails with, and the
// program never starts.
func TestInputThatFails(t *testing.T) {
	t.Parallel()
	sandboxes := open(t)
	cause := errors.New("the bucket is away")
	for name, f := range map[string]sandbox.File{
		"open":      {Size: 1, Open: func(context.Context) (io.ReadCloser, error) { return nil, cause }},
		"read":      {Size: 1 << 20, Open: opened(io.MultiReader(&pattern{1 << 19}, failing{cause}))},
		"too short": {Size: 1 << 20, Open: opened(&pattern{1 << 19})},
		"too long":  {Size: 1 << 20, Open: opened(&pattern{1 << 21})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gbtest.WhenIdle(t)
			p := bash("echo started")
			f.Name = "in"
			p.Files, p.Image = append(p.Files, f), suite.image
			k := &kept{}
			_, err := sandboxes.Run(t.Context(), p, k)
			if err == nil || !strings.Contains(err.Error(), `read input "in"`) || (name == "open" || name == "read") && !errors.Is(err, cause) {
				t.Errorf("got %v", err)
			}
			if k.stdout.Len() > 0 {
				t.Error("the program was started")
			}
		})
	}
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

// TestInputsBeyondLimits are the job's own fault.
func TestInputsBeyondLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits job.Limits
		status job.Status
	}{
		"disk":   {job.Limits{DiskMB: 16, MemoryMB: 256}, job.Failed},
		"memory": {job.Limits{DiskMB: 1024, MemoryMB: 64}, job.OutOfMemory},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := bash("echo started", limits(c.limits))
			p.Files = append(p.Files, sandbox.File{Name: "in", Size: 512 << 20, Open: opened(&pattern{512 << 20})})
			o, k := run(t, p)
			if o.Status != c.status || k.stdout.Len() > 0 {
				t.Errorf("got %+v, %q; want %s", o, k.stdout.String(), c.status)
			}
		})
	}
}

// TestInputsThatDontFit: where the inputs don't fit the job's directory, nothing is run on
// a part of them, a compiler neither, and no part of them is an artifact.
func TestInputsThatDontFit(t *testing.T) {
	t.Parallel()
	open(t)
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]string{"bash": "echo started", "c": "#error started"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := set.Lookup(name)
			p := program("", limits(job.Limits{DiskMB: 1}))
			p.Image, p.Env = r.Image(), r.Env
			p.Compile, p.Command = r.Command("", nil)
			p.Files = []sandbox.File{{Name: r.File, Content: []byte(source)}}
			for i := range 200 { // a million bytes, but each takes whole pages
				p.Files = append(p.Files, sandbox.File{Name: fmt.Sprintf("in/%d", i), Content: make([]byte, 5000)})
			}
			o, k := run(t, p)
			const said = "glovebox: the input files do not fit into the job's directory (limits.disk_mb)\n"
			if o.Status != job.Failed || o.ExitCode != 1 || o.Compile != nil || k.stdout.Len() > 0 || k.stderr.String() != said {
				t.Errorf("got %+v, %q, %q", o, k.stdout.String(), k.stderr.String())
			}
			if len(k.artifacts) > 0 || o.SkippedTotal > 0 {
				t.Errorf("of the inputs it keeps %s and skips %d", k.names(), o.SkippedTotal)
			}
		})
	}
}

// TestCancelWhileAnInputHangs: an input that is not read on holds up nothing but its job.
func TestCancelWhileAnInputHangs(t *testing.T) {
	t.Parallel()
	sandboxes := open(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	canceled := errors.New("canceled")
	p := bash("echo started")
	p.Image = suite.image
	p.Files = append(p.Files, sandbox.File{Name: "in", Size: 1, Open: func(ctx context.Context) (io.ReadCloser, error) {
		cancel(canceled)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	if _, err := sandboxes.Run(ctx, p, &kept{}); !errors.Is(err, canceled) {
		t.Errorf("got %v, want the cause", err)
	}
}
