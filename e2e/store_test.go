package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/artifacts/artifactstest"
	"github.com/glovebox-run/glovebox/job"
)

// TestStoreFails: S3 fails in every way it can in the middle of a multipart upload. The
// job comes to its whole result at the first attempt, and no upload is left.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	const (
		pauses = "worker pauses"
		outage = "job met an outage"
	)
	for _, c := range []struct {
		name  string
		fail  func(*artifactstest.Proxy)
		until string // what the worker says before S3 is back
		back  func(*artifactstest.Proxy)
	}{
		{"refuses connections", func(p *artifactstest.Proxy) { p.Refuse(true) }, outage, func(p *artifactstest.Proxy) { p.Refuse(false) }},
		{"answers 503", func(p *artifactstest.Proxy) { p.Overload(true) }, pauses, func(p *artifactstest.Proxy) { p.Overload(false) }},
		{"resets connections", func(p *artifactstest.Proxy) { p.Reset(1<<20, 3) }, "", func(*artifactstest.Proxy) {}},
		{"is slow", func(p *artifactstest.Proxy) { p.SetRate(2 << 20) }, "", func(*artifactstest.Proxy) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && (c.name == "refuses connections" || c.name == "is slow") {
				t.Skip("make test-long runs this: in short, worker's TestStoreIsAway and TestSlowStoreAndCancel have such stores")
			}
			t.Parallel()
			var proxy *artifactstest.Proxy
			g := start(t, options{s3Endpoint: func(endpoint string) string {
				proxy = artifactstest.Throttle(t, endpoint, 6<<20)
				return proxy.URL
			}})
			id := g.submit(job.Spec{
				Runtime: "bash", Source: "head -c 25000000 /dev/urandom > large.bin; sha256sum < large.bin",
				Limits: job.Limits{WallMS: 60_000, MemoryMB: 256, DiskMB: 64, FileMB: 32, ArtifactMB: 32},
			})
			for deadline := time.Now().Add(patience); proxy.Passed() < 8<<20; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the job uploads nothing")
				}
			}
			c.fail(proxy)
			for deadline := time.Now().Add(patience); !g.worker.Printed(c.until); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("the worker did not say %q within 2 minutes", c.until)
				}
			}
			c.back(proxy)
			r := g.wait(id)
			if r.Status != job.Succeeded || r.Attempt != 1 || len(r.Artifacts) != 1 || r.Artifacts[0].Size != 25_000_000 {
				t.Fatalf("got %s at attempt %d, %+v", r.Status, r.Attempt, r.Artifacts)
			}
			if sum, _, _ := strings.Cut(r.Stdout, " "); sum != r.Artifacts[0].SHA256 {
				t.Errorf("the job says SHA-256 %s, the result %s", sum, r.Artifacts[0].SHA256)
			}
			if c.until == "" && g.worker.Printed(pauses) {
				t.Error("the worker paused though S3 was there")
			}
			g.nothingLeft(r)
		})
	}
}
