package doctor

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-run/glovebox/internal/metrics"
)

// TestSnapshots: doctor says of each runtime what its worker has, or why not.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	page := &metrics.SnapshotPage{}
	worker := httptest.NewServer(metrics.Handler(prometheus.NewRegistry(), map[string]http.Handler{metrics.SnapshotsPath: page}))
	defer worker.Close()
	api := httptest.NewServer(metrics.Handler(prometheus.NewRegistry(), nil))
	defer api.Close()
	look := func(ctx context.Context, url string) string {
		r := &report{Config: Config{WorkerMetrics: strings.TrimPrefix(url, "http://")}}
		r.snapshots(ctx)
		var said []string
		for _, f := range r.findings {
			said = append(said, string(f.Level)+" "+f.Name+" "+f.Text)
		}
		return strings.Join(said, "\n")
	}
	want := func(got string, lines ...string) {
		t.Helper()
		for i, line := range strings.Split(got, "\n") {
			if i >= len(lines) || !strings.HasPrefix(line, lines[i]) {
				t.Fatalf("got\n%s\nwant\n%s", got, strings.Join(lines, "\n"))
			}
		}
	}
	want(look(t.Context(), worker.URL), "ok snapshots not looked at, no worker tells of them: "+strings.TrimPrefix(worker.URL, "http://")+" answers 503")
	want(look(t.Context(), api.URL), "ok snapshots not looked at, no worker tells of them: "+strings.TrimPrefix(api.URL, "http://")+" answers 404")
	want(look(t.Context(), "fd:3"), "ok snapshots not looked at")

	said := metrics.Snapshots{Runtimes: []metrics.Snapshot{
		{Runtime: "a", Bytes: 67 << 20, Made: time.Now().Add(-90 * time.Second)},
		{Runtime: "b", Failure: "the OCI runtime did not ask"},
		{Runtime: "c"},
		{Runtime: "d", Off: "nothing is preloaded, as there is no room"},
	}}
	page.Tell(func() metrics.Snapshots { return said })
	want(look(t.Context(), worker.URL), "ok snapshots a: made and restored, 67 MiB, 1m3", "warning snapshots b: none, so sandboxes preload by themselves, in quiet seconds: the OCI runtime did not ask", "ok snapshots c: none was tried yet", "ok snapshots d: nothing is preloaded, as there is no room")

	page.Tell(func() metrics.Snapshots { return metrics.Snapshots{Off: "GLOVEBOX_SNAPSHOTS is never"} })
	want(look(t.Context(), worker.URL), "ok snapshots the worker makes none: GLOVEBOX_SNAPSHOTS is never")
	page.Tell(func() metrics.Snapshots {
		return metrics.Snapshots{Off: "there is no room", Runtimes: said.Runtimes[3:]}
	})
	want(look(t.Context(), worker.URL), "ok snapshots the worker makes none: there is no room", "ok snapshots d: nothing is preloaded")
	page.Tell(func() metrics.Snapshots { return metrics.Snapshots{} })
	want(look(t.Context(), worker.URL), "ok snapshots no runtime")
}
