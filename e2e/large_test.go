package e2e

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/artifacts/artifactstest"
	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// largeBytes is far more than a worker may hold in memory, in short beside what it has anyway.
func largeBytes() int64 {
	if testing.Short() {
		return 160 << 20
	}
	return 300 << 20
}

// large is a job that leaves a file that does not compress.
func large() job.Spec {
	return job.Spec{
		Runtime: "bash", Source: fmt.Sprintf("head -c %d /dev/urandom > large.bin; sha256sum < large.bin", largeBytes()),
		Limits: job.Limits{WallMS: 120_000, CPUMS: 240_000, MemoryMB: 512, DiskMB: 400, FileMB: 400, ArtifactMB: 400},
	}
}

// memoryBound is what a worker's memory has to stay below, whatever jobs leave.
const memoryBound = 150 << 20

func TestLargeArtifact(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	r := g.wait(g.submit(large()))
	if r.Status != job.Succeeded || len(r.Artifacts) != 1 || r.Artifacts[0].Size != largeBytes() {
		t.Fatalf("got %+v", r)
	}
	if sum, _, _ := strings.Cut(r.Stdout, " "); sum != r.Artifacts[0].SHA256 {
		t.Errorf("the job says SHA-256 %s, the result %s", sum, r.Artifacts[0].SHA256)
	}
	d, err := g.client.Open(t.Context(), r.ID, producer.ArtifactPath("large.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if n, err := io.Copy(io.Discard, d); n != largeBytes() || err != nil {
		t.Errorf("downloaded %d bytes, %v", n, err)
	}
	if peak := peakMemory(t, g.worker.PID()); peak > memoryBound {
		t.Errorf("the worker's memory peaked at %d MiB", peak>>20)
	} else {
		t.Logf("the worker's memory peaked at %d MiB", peak>>20)
	}
	g.nothingLeft(r)
}

func TestSlowStoreAndCancel(t *testing.T) {
	t.Parallel()
	g := start(t, options{
		noWorker:   true,
		s3Endpoint: func(endpoint string) string { return artifactstest.Throttle(t, endpoint, 1<<20).URL },
	})
	g.worker = g.startWorker(g.failpoint("pause", failpoint.Uploading))
	id := g.submit(large())
	g.reached(failpoint.Uploading)
	g.goOn(failpoint.Uploading)
	time.Sleep(8 * time.Second) // 8 MiB, with parts under way
	began := time.Now()
	if _, err := g.client.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	r := g.wait(id)
	took := time.Since(began)
	if r.Status != job.Canceled || took > gbtest.AtOnce { // all of it takes minutes
		t.Errorf("got %s %s after the cancel, want canceled at once", r.Status, took)
	}
	peak := peakMemory(t, g.worker.PID())
	if peak > memoryBound {
		t.Errorf("the worker's memory peaked at %d MiB", peak>>20)
	}
	t.Logf("canceled after %d ms; the worker's memory peaked at %d MiB", took.Milliseconds(), peak>>20)
	g.nothingLeft()
}

func TestHostileFiles(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	r := g.wait(g.submit(job.Spec{Runtime: "python", Source: `
import os, socket
open('plain.txt', 'w').write('kept')
os.symlink('/etc/passwd', 'absolute')
os.symlink('plain.txt', 'relative')
os.symlink('/proc', 'directory')
os.link('plain.txt', 'hard')
os.mkfifo('fifo')
s = socket.socket(socket.AF_UNIX); s.bind('socket')
open('new\nline', 'w').write('x')
open('bidi\u202e.txt', 'w').write('x')
open(b'not-utf8-\xff', 'w').write('x')
os.mkdir('a'); open('a/..hidden', 'w').write('kept too')
`}))
	if r.Status != job.Succeeded {
		t.Fatalf("got %+v", r)
	}
	var names []string
	for _, a := range r.Artifacts {
		names = append(names, a.Name)
	}
	if !slices.Equal(names, []string{"a/..hidden"}) { // plain.txt has two names
		t.Errorf("got artifacts %q", names)
	}
	said := fmt.Sprint(r.ArtifactsSkipped)
	for _, name := range []string{"absolute", "relative", "directory", "hard", "plain.txt", "fifo", "socket", "line", "bidi", "not-utf8"} {
		if !strings.Contains(said, name) {
			t.Errorf("nothing is said of %q: %s", name, said)
		}
	}
	if r.ArtifactsSkippedTotal < 10 {
		t.Errorf("%d files are accounted for, want at least 10", r.ArtifactsSkippedTotal)
	}
	for _, s := range r.ArtifactsSkipped {
		if s.Reason == "" || strings.ContainsAny(s.Name, "\n\u202e") {
			t.Errorf("an account that can't be shown: %q %q", s.Name, s.Reason)
		}
	}

	many := g.wait(g.submit(job.Spec{Runtime: "bash", Source: "for i in {1..10000}; do : > f$i; done", Limits: job.Limits{WallMS: 60_000}}))
	if many.Status != job.Succeeded || len(many.Artifacts) != 32 || many.ArtifactsSkippedTotal != 10_000-32 || len(many.ArtifactsSkipped) > job.MaxSkipped {
		t.Errorf("10,000 files: got %s, %d kept, %d skipped of which %d are told", many.Status, len(many.Artifacts), many.ArtifactsSkippedTotal, len(many.ArtifactsSkipped))
	}
	g.nothingLeft(r, many)
}

// peakMemory is the most that a process ever had in memory.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}
