package worker_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
)

// counted is a worker's way to the bucket, whose requests are counted.
func (g *glovebox) counted() (*artifacts.Store, *gbtest.S3Proxy) {
	g.t.Helper()
	proxy := g.s3.Proxy(g.t)
	store, err := artifacts.Open(g.t.Context(), artifacts.Config{
		Endpoint: proxy.Endpoint, Region: g.s3.Region, Bucket: "glovebox", AccessKey: g.s3.AccessKey, SecretKey: g.s3.SecretKey, PathStyle: true,
	})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(store.Close)
	return store, proxy
}

// upload puts content where a tenant's uploads are, and returns its digest and its key.
func (g *glovebox) upload(content []byte) (digest, key string) {
	g.t.Helper()
	sum := sha256.Sum256(content)
	digest = hex.EncodeToString(sum[:])
	key, err := artifacts.UploadKey("default", digest)
	if err == nil {
		_, err = g.objects.PutBytes(g.t.Context(), key, "application/octet-stream", content)
	}
	if err != nil {
		g.t.Fatal(err)
	}
	return digest, key
}

// peakHeap samples the process's heap until it is stopped.
func peakHeap() (stop func() uint64) {
	var peak atomic.Uint64
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapInuse))
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() uint64 { close(ended); <-done; return peak.Load() }
}

// onDisk is what the files below a directory have, bytes, whose caches come and go.
func onDisk(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}

// numbers are so many lines of a random number each that they have some n bytes.
func numbers(seed int64, n int) []byte {
	random := rand.New(rand.NewSource(seed)) //nolint:gosec // not a secret
	var b bytes.Buffer
	for b.Len() < n-20 {
		fmt.Fprintln(&b, random.Int63())
	}
	return b.Bytes()
}

// TestGradingsReadTheBucketOnce: a problem's data is read from the bucket once a worker, however many
// submissions are graded, two at a time; memory does not grow with the data, and nothing is left of it.
// GLOVEBOX_SOAK_GRADINGS submissions of a problem of GLOVEBOX_SOAK_MB are graded (6 of 8 MB, or 1000 of
// 200 with `make soak-grading`).
func TestGradingsReadTheBucketOnce(t *testing.T) { //nolint:paralleltest // it measures the process
	gradings, mb := int(number(t, "GLOVEBOX_SOAK_GRADINGS", 6)), int(number(t, "GLOVEBOX_SOAK_MB", 8)) //nolint:gosec // small
	const tests = 4
	g := start(t, nil)
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	store, proxy := g.counted()
	r, dir := metrics.NewRegistry("v1"), t.TempDir()
	most := int64(mb + mb/10 + 1) // MiB
	g.work(func(c *worker.Config) {
		c.Objects, c.CacheMB, c.CacheDir, c.Metrics = store, most, dir, metrics.NewWorker(r, []string{"bash"})
	})
	spec := job.Spec{Runtime: "bash", Source: "exec cat", Limits: job.Limits{OutputKB: 64 << 10, WallMS: 120_000, CPUMS: 120_000}}
	var keys []string
	for i := range tests {
		content := numbers(int64(i), mb<<20/(2*tests))
		in, inKey := g.upload(content)
		answer, answerKey := g.upload(append(content, '\n'))
		keys = append(keys, inKey, answerKey)
		spec.Tests = append(spec.Tests, job.Test{Name: fmt.Sprint(i), StdinUpload: in, AnswerUpload: answer, Hidden: i > 1})
	}
	debug.FreeOSMemory()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	heap := peakHeap()
	began := time.Now()
	ids := make(chan string, gradings)
	for range gradings {
		ids <- g.submit(spec)
	}
	close(ids)
	disk := int64(0)
	for id := range ids {
		if res := g.result(id); res.Status != job.Succeeded || res.Verdict != job.Accepted || res.Attempt != 1 {
			t.Errorf("got %s, %s, attempt %d, %+v, %+v", res.Status, res.Verdict, res.Attempt, res.Error, res.Tests)
		}
		disk = max(disk, onDisk(dir))
	}
	took, peak := time.Since(began), heap()
	asked := 0
	for _, key := range keys {
		if n := proxy.Counts()["GET /glovebox/"+key]; n != 1 {
			t.Errorf("the bucket was read %d times for an object", n)
		}
		asked += proxy.Counts()["HEAD /glovebox/"+key]
	}
	t.Logf("%d gradings of %d MB in %s, %s each; heap %d MiB before, %d at most; disk %d MiB at most of %d; bucket: %d objects read once, asked for %d times",
		gradings, mb, took.Round(time.Second), (took / time.Duration(gradings)).Round(time.Millisecond), before.HeapInuse>>20, peak>>20, disk>>20, most, len(keys), asked)
	if peak > before.HeapInuse+64<<20 {
		t.Errorf("the heap grew from %d to %d MiB", before.HeapInuse>>20, peak>>20)
	}
	if disk > most<<20 || disk < int64(len(keys)*mb<<20/(2*tests))*9/10 {
		t.Errorf("%d bytes on the disk", disk)
	}
	reads := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^glovebox_test_cache_reads_total{result="([a-z]+)"} (\d+)$`).FindAllStringSubmatch(scrape(t, r), -1) {
		reads[m[1]], _ = strconv.Atoi(m[2])
	}
	if all := reads["hit"] + reads["miss"]; all != len(keys)*gradings || reads["miss"] < len(keys) || reads["damaged"]+reads["uncached"] > 0 {
		t.Errorf("got the reads %v", reads)
	}
	if err := g.stop(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the worker has left %v, %v", left, err)
	}
}

// TestGradeWithoutRoom: a cache that is too small, or whose directory can't be made, changes no verdict.
func TestGradeWithoutRoom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mb   int64
		dir  string
		says string
	}{
		"small":        {1, t.TempDir(), ""},
		"none":         {0, t.TempDir(), ""},
		"no directory": {8, filepath.Join(t.TempDir(), "no", "such"), "are read from the bucket each time"},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, func(w *worker.Config) { w.CacheMB, w.CacheDir = c.mb, c.dir })
			spec := job.Spec{Runtime: "bash", Source: "exec cat", Limits: job.Limits{OutputKB: 4 << 10}}
			for i, n := range []int{100, 700_000, 2_000_000, 700_000} {
				content := numbers(int64(i), n)
				digest, _ := g.upload(content)
				spec.Tests = append(spec.Tests, job.Test{Name: fmt.Sprint(i), StdinUpload: digest, AnswerUpload: digest})
			}
			wrong, _ := g.upload(numbers(9, 700_000))
			spec.Tests = append(spec.Tests, job.Test{Name: "wrong", StdinUpload: wrong, AnswerUpload: spec.Tests[1].AnswerUpload})
			for range 2 {
				if r := g.result(g.submit(spec)); r.Verdict != job.WrongAnswer || *r.Score != 4 {
					t.Errorf("got %s, %s, %+v, %+v", r.Status, r.Verdict, r.Error, r.Tests)
				}
			}
			g.says(c.says)
		})
	}
}

// TestUploadsOfOthers: a tenant whose job names what another has uploaded, and the worker keeps, is
// answered as for what nobody has uploaded.
func TestUploadsOfOthers(t *testing.T) {
	t.Parallel()
	g := start(t, func(c *worker.Config) { c.CacheMB, c.CacheDir = 8, t.TempDir() })
	digest, _ := g.upload([]byte("42"))
	spec := job.Spec{Runtime: "bash", Source: "exec cat", Tests: []job.Test{{Name: "1", StdinUpload: digest, AnswerUpload: digest}}}
	if r := g.result(g.submit(spec)); r.Verdict != job.Accepted {
		t.Fatalf("got %s, %+v", r.Verdict, r.Error)
	}
	id := job.NewID("other")
	if err := g.records.Create(t.Context(), id, spec, ""); err != nil {
		t.Fatal(err)
	}
	if r := g.result(id); r.Verdict != job.JudgeError || r.Error == nil || r.Error.Code != job.CodeInputGone {
		t.Errorf("got %s, %+v", r.Verdict, r.Error)
	}
}
