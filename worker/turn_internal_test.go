package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// hanging is a bucket that does not answer.
type hanging struct {
	cutOff
	asked chan struct{} // received means that it was
}

func (h *hanging) hang(ctx context.Context) error {
	select {
	case h.asked <- struct{}{}:
	case <-ctx.Done():
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (h *hanging) Get(ctx context.Context, _ string) (io.ReadCloser, artifacts.Object, error) {
	return nil, artifacts.Object{}, h.hang(ctx)
}

func (h *hanging) Upload(ctx context.Context, _ string, _ io.Reader, _ artifacts.Options) (artifacts.Object, error) {
	return artifacts.Object{}, h.hang(ctx)
}

// TestDrainWithoutBucket: a worker that shuts down does not wait for a bucket to store an execution whose sandbox was lost.
func TestDrainWithoutBucket(t *testing.T) {
	t.Parallel()
	w, objects := sessionWorker(t, 1024), &hanging{asked: make(chan struct{})}
	w.withRecords(t)
	w.Objects, w.UploadTimeout, w.Patience = objects, time.Hour, gbtest.Patience
	h, j := w.taken(t)
	life, end := context.WithCancelCause(h.life)
	h.life = life
	begun, err := h.begin(j)
	if err == nil {
		err = begun.Sink.Stdout(bytes.Repeat([]byte("x"), job.InlineOutput+1))
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		h.ended(sandbox.Outcome{Lost: true, Status: job.OutOfMemory}, nil)
		close(ended)
	}()
	<-objects.asked
	end(errDrained)
	select {
	case <-ended:
	case <-time.After(gbtest.AtOnce):
		t.Fatal("it waits for the bucket")
	}
	if got, err := w.Records.Get(t.Context(), j.ID); err != nil || got.State != job.InternalError {
		t.Errorf("got %s %s, %v, want internal_error", got.State, got.Result, err)
	}
}

// fullDisk is a directory for so many KiB.
func fullDisk(t *testing.T, kib int) string {
	t.Helper()
	dir := t.TempDir()
	// Nobody else sees what is mounted there, and it ends with the process.
	script := fmt.Sprintf("mount -t tmpfs -o size=%dk none %s && mkdir %s/spool && exec sleep infinity", kib, dir, dir)
	disk := gbtest.Start(t, []string{"unshare", "--user", "--map-root-user", "--mount", "setpriv", "--pdeathsig", "KILL", "sh", "-c", script}, nil, nil)
	path := fmt.Sprintf("/proc/%d/root%s/spool", disk.PID(), dir)
	gbtest.Eventually(t, "a small disk", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
	return path
}

// withBucket gives the worker a bucket.
func (w *Worker) withBucket(t *testing.T) *artifacts.Store {
	t.Helper()
	s3 := gbtest.S3(t)
	store, err := artifacts.Open(t.Context(), artifacts.Config{
		Endpoint: s3.Endpoint, Region: s3.Region, Bucket: "glovebox", AccessKey: s3.AccessKey, SecretKey: s3.SecretKey, PathStyle: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	if err := store.EnsureBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Objects = store
	return store
}

// TestFullSpool: a file that the worker's disk has no room for is left out of the execution's result, and what it printed is cut off; the session goes on. Zeros take no room.
func TestFullSpool(t *testing.T) {
	t.Parallel()
	w := sessionWorker(t, 1024)
	w.withRecords(t)
	store := w.withBucket(t)
	w.SpoolDir = fullDisk(t, 1024)
	h, j := w.taken(t)
	begun, err := h.begin(j)
	if err != nil {
		t.Fatal(err)
	}
	type file struct {
		name    string
		content []byte
	}
	files := []file{
		{"large", bytes.Repeat([]byte("x"), 2<<20)}, {"hole", make([]byte, 8<<20)}, {"after", bytes.Repeat([]byte("x"), 512<<10)},
	}
	for _, f := range files {
		if err := begun.Sink.Artifact(t.Context(), f.name, int64(len(f.content)), bytes.NewReader(f.content)); err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
	}
	long := strings.Repeat("x", job.InlineOutput+1)
	for _, out := range []error{begun.Sink.Stdout(bytes.Repeat([]byte("€"), 1<<20)), begun.Sink.Stdout([]byte("more")), begun.Sink.Stderr([]byte(long))} {
		if out != nil {
			t.Fatal(out)
		}
	}
	o := sandbox.TurnOutcome{TestOutcome: sandbox.TestOutcome{Status: job.Succeeded}, Skipped: []job.Skipped{{Name: "fifo", Reason: "is no regular file"}}, SkippedTotal: 1}
	if err := h.Ended(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	key, err := artifacts.JobKeys(j.Tenant, j.ID)
	if err != nil {
		t.Fatal(err)
	}
	b, err := store.GetBytes(t.Context(), key.Result(int64(j.Epoch)), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var r job.Result
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if r.Status != job.Succeeded || len(r.ArtifactsSkipped) != 2 || r.ArtifactsSkippedTotal != 2 || r.ArtifactsSkipped[1].Name != "large" || !strings.Contains(r.ArtifactsSkipped[1].Reason, "disk is full") {
		t.Errorf("got %s", b)
	}
	if want := strings.Repeat("€", job.InlineOutput/3); r.Stdout != want || !r.StdoutTruncated || r.StdoutURL != "" {
		t.Errorf("got %d bytes of stdout, cut off: %t, at %q; want %d, cut off", len(r.Stdout), r.StdoutTruncated, r.StdoutURL, len(want))
	}
	if r.Stderr != long[:job.InlineOutput] || r.StderrTruncated || r.StderrURL != "stderr" {
		t.Errorf("got %d bytes of stderr, cut off: %t, at %q; want all of it", len(r.Stderr), r.StderrTruncated, r.StderrURL)
	}
	var kept []string
	for _, a := range r.Artifacts {
		kept = append(kept, a.Name)
	}
	if want := []string{"hole", "after"}; !slices.Equal(kept, want) {
		t.Errorf("got artifacts %v, want %v", kept, want)
	}
	for _, a := range r.Artifacts {
		body, _, err := store.Get(t.Context(), key.Artifact(int64(j.Epoch), a.Name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(body)
		body.Close()
		i := slices.IndexFunc(files, func(f file) bool { return f.name == a.Name })
		if err != nil || !bytes.Equal(got, files[i].content) {
			t.Errorf("%s: got %d bytes, %v, that are not the file's %d", a.Name, len(got), err, len(files[i].content))
		}
	}
}

// TestFullSpoolInput: an execution that is given a file which the worker's disk has no room for fails at once, and says why; the session goes on.
func TestFullSpoolInput(t *testing.T) {
	t.Parallel()
	w, ctx := sessionWorker(t, 1024), t.Context()
	w.withRecords(t)
	store := w.withBucket(t)
	w.sessions.turns, w.SpoolDir = newTurnSlots(1), fullDisk(t, 1024)
	h, j := w.taken(t)
	_, err := h.begin(j)
	if err == nil {
		err = h.Ended(ctx, sandbox.TurnOutcome{TestOutcome: sandbox.TestOutcome{Status: job.Succeeded}})
	}
	if err != nil {
		t.Fatal(err)
	}
	var given []string
	for _, size := range []int{2 << 20, 1<<20 + spoolBuffer/2} { // the second is found too large once all of it is flushed
		content := bytes.Repeat([]byte("x"), size)
		sum := fmt.Sprintf("%x", sha256.Sum256(content))
		key, err := artifacts.UploadKey("default", sum)
		if err == nil {
			_, err = store.PutBytes(ctx, key, "text/plain", content)
		}
		if err != nil {
			t.Fatal(err)
		}
		given = append(given, h.execute(t, job.File{Name: "large", Upload: sum, SHA256: sum, Size: int64(size)}))
	}
	next := h.execute(t)
	if _, ok, err := h.Next(ctx); err != nil || !ok || h.turn.job.ID != next {
		t.Fatalf("got %v, %v, want execution %s", ok, err, next)
	}
	defer h.turn.close()
	for _, id := range given {
		got, err := w.Records.Get(ctx, id)
		if err != nil || got.State != job.Failed || !strings.Contains(string(got.Result), `"unavailable"`) || !strings.Contains(string(got.Result), "disk is full") {
			t.Errorf("got %s %s, %v, want it failed as the disk is full", got.State, got.Result, err)
		}
	}
}
