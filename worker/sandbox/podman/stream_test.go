package podman_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// TestBigArtifact: what the worker holds in memory doesn't grow with the size of a file.
func TestBigArtifact(t *testing.T) {
	// Not parallel: it looks at the process's memory.
	sandboxes := open(t)
	const mb = 300
	p := program(`
import hashlib
h = hashlib.sha256()
with open('big', 'wb') as f:
    for i in range(300):
        b = bytes([i % 251]) * (1 << 20)
        f.write(b); h.update(b)
print(h.hexdigest(), end='')
`, limits(job.Limits{DiskMB: mb + 8, FileMB: mb + 8, ArtifactMB: mb + 8, MemoryMB: mb + 128, WallMS: 300_000}))
	p.Image = suite.image
	before := held()
	k := &kept{}
	sink := &watchingSink{kept: k}
	began := time.Now()
	o, err := sandboxes.Run(t.Context(), p, sink)
	if err != nil {
		t.Fatal(err)
	}
	if len(k.artifacts) != 1 || k.artifacts[0].size != mb<<20 || k.artifacts[0].sha256 != k.stdout.String() {
		t.Fatalf("got %+v, %+v, want sha256 %s", o, k.artifacts, k.stdout.String())
	}
	grew := sink.watch.most - before
	t.Logf("%v, %d KiB held before, at most %d KiB more; timing %+v", time.Since(began), before>>10, grew>>10, o.Timing)
	if grew > 8<<20 {
		t.Errorf("%d KiB more were held, want at most 8 MiB", grew>>10)
	}
}

// watchingSink looks at what this process holds while an artifact passes.
type watchingSink struct {
	*kept
	watch watcher
}

func (w *watchingSink) Artifact(_ context.Context, name string, size int64, r io.Reader) error {
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(h, &w.watch), r); err != nil {
		return err
	}
	w.artifacts = append(w.artifacts, artifact{name: name, size: size, sha256: hex.EncodeToString(h.Sum(nil))})
	return nil
}

// watcher looks at what this process holds, at each 8 MiB that are written to it.
type watcher struct{ passed, next, most int64 }

func (w *watcher) Write(p []byte) (int, error) {
	if w.passed += int64(len(p)); w.passed >= w.next {
		w.most = max(w.most, held())
		w.next += 8 << 20
	}
	return len(p), nil
}

// held is what is reachable, in bytes: memory that is resident depends on the garbage of earlier tests.
func held() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// blockedSink is an S3 that takes nothing any more.
type blockedSink struct {
	kept
	blocked chan struct{}
}

func (b *blockedSink) Artifact(ctx context.Context, _ string, _ int64, r io.Reader) error {
	if _, err := io.CopyN(io.Discard, r, 1<<20); err != nil {
		return err
	}
	close(b.blocked)
	<-ctx.Done()
	return ctx.Err()
}

func TestCancelWhileTheSinkBlocks(t *testing.T) {
	t.Parallel()
	sandboxes := open(t)
	p := program("open('x', 'wb').write(bytes(20 << 20))")
	p.Image = suite.image
	p.JobID = "blocked-sink"
	cause := errors.New("canceled by the user")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	sink := &blockedSink{blocked: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		_, err := sandboxes.Run(ctx, p, sink)
		done <- err
	}()
	<-sink.blocked
	began := time.Now()
	cancel(cause)
	if err := <-done; !errors.Is(err, cause) {
		t.Errorf("got %v, want the cause", err)
	}
	if took := time.Since(began); took > gbtest.AtOnce {
		t.Errorf("Run returned after %v", took)
	}
	gone(t, "blocked-sink", gbtest.Patience)
}

func TestCancelWhileItRuns(t *testing.T) {
	t.Parallel()
	sandboxes := open(t)
	p := program("print('on', flush=True); import time; time.sleep(1000)", limits(job.Limits{WallMS: 1_000_000}))
	p.Image = suite.image
	p.JobID = "canceled"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sink := &signalSink{on: make(chan struct{}, 1)}
	done := make(chan error, 1)
	go func() {
		_, err := sandboxes.Run(ctx, p, sink)
		done <- err
	}()
	<-sink.on
	began := time.Now()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if took := time.Since(began); took > gbtest.AtOnce {
		t.Errorf("Run returned after %v", took)
	}
	gone(t, "canceled", gbtest.Patience)
}

// TestCancelAnytime: whatever step a cancel meets, Run returns, and
// TestMain finds no container left.
func TestCancelAnytime(t *testing.T) {
	t.Parallel()
	sandboxes := open(t)
	for after := 5 * time.Millisecond; after < 400*time.Millisecond; after = after * 4 / 3 {
		p := program("open('x', 'wb').write(bytes(8 << 20))")
		p.Image = suite.image
		ctx, cancel := context.WithCancel(t.Context())
		canceled := make(chan time.Time, 1)
		time.AfterFunc(after, func() { canceled <- time.Now(); cancel() })
		_, err := sandboxes.Run(ctx, p, &kept{})
		returned := time.Now()
		if took := returned.Sub(<-canceled); took > gbtest.AtOnce {
			t.Errorf("a cancel after %v took %v", after, took)
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("a cancel after %v: %v", after, err)
		}
		cancel()
	}
}

// meanwhile runs a program until the test ends, and returns when it has said something.
func meanwhile(t *testing.T, p sandbox.Program) {
	t.Helper()
	sandboxes := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	sink := &signalSink{on: make(chan struct{}, 1)}
	done := make(chan error, 1)
	go func() {
		_, err := sandboxes.Run(ctx, p, sink)
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the program beside the test: %v\n%s", err, sink.stderr.String())
		}
	})
	select {
	case <-sink.on:
	case err := <-done:
		done <- err
		t.Fatal("the program beside the test has ended")
	}
}

type signalSink struct {
	kept
	on chan struct{}
}

func (s *signalSink) Stdout([]byte) error {
	select {
	case s.on <- struct{}{}:
	default:
	}
	return nil
}

// gone waits until no container of the job is left.
func gone(t *testing.T, job string, patience time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		out, err := podmanCLI("ps", "-a", "-q", "--filter", "label=run.glovebox.instance="+instance, "--filter", "label=run.glovebox.job="+job)
		if err != nil {
			t.Fatal(err)
		}
		if out == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the container %s is still there", out)
		}
	}
}

// failingSink is an S3 that is down.
type failingSink struct{ kept }

var errSink = errors.New("the store is down")

func (f *failingSink) Artifact(context.Context, string, int64, io.Reader) error { return errSink }

func TestSinkFails(t *testing.T) {
	t.Parallel()
	sandboxes := open(t)
	p := program("open('x', 'wb').write(bytes(20 << 20))")
	p.Image = suite.image
	if _, err := sandboxes.Run(t.Context(), p, &failingSink{}); !errors.Is(err, errSink) {
		t.Errorf("got %v, want the sink's error", err)
	}
}

// lazySink wants nothing of an artifact.
type lazySink struct{ names []string }

func (l *lazySink) Stdout([]byte) error { return nil }
func (l *lazySink) Stderr([]byte) error { return nil }
func (l *lazySink) Artifact(_ context.Context, name string, _ int64, _ io.Reader) error {
	l.names = append(l.names, name)
	return nil
}

func TestSinkReadsNothing(t *testing.T) {
	t.Parallel()
	sandboxes := open(t)
	p := program("open('x', 'wb').write(bytes(5 << 20)); open('y', 'wb').write(bytes(5 << 20))")
	p.Image = suite.image
	sink := &lazySink{}
	if o, err := sandboxes.Run(t.Context(), p, sink); err != nil || o.Status != job.Succeeded || strings.Join(sink.names, " ") != "x y" {
		t.Errorf("got %+v, %v, %v", o, err, sink.names)
	}
}

// slowSink takes 1 MB/s.
type slowSink struct {
	kept
	took int64
}

func (s *slowSink) Stdout(p []byte) error {
	time.Sleep(time.Duration(len(p)) * time.Second / (1 << 20))
	s.took += int64(len(p))
	return nil
}

// TestSlowSink: a sink slower than the program holds the program back, and nothing is lost.
func TestSlowSink(t *testing.T) {
	t.Parallel()
	sandboxes := open(t)
	p := program("import sys\nfor i in range(2048): sys.stdout.write('x' * 1024)", limits(job.Limits{OutputKB: 2048}))
	p.Image = suite.image
	sink := &slowSink{}
	o, err := sandboxes.Run(t.Context(), p, sink)
	if err != nil || o.Status != job.Succeeded || sink.took != 2<<20 {
		t.Errorf("got %+v, %v, %d bytes", o, err, sink.took)
	}
}

func TestNoImage(t *testing.T) {
	t.Parallel()
	sandboxes := open(t)
	p := program("")
	p.Image = "localhost/glovebox/no-such-image:1"
	if _, err := sandboxes.Run(t.Context(), p, &kept{}); !errors.Is(err, sandbox.ErrNoImage) {
		t.Errorf("got %v, want ErrNoImage", err)
	}
}
