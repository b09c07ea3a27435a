package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// bench measures an installation with a worker's defaults beside what else could run the
// same programs, in turns, so that what disturbs the machine disturbs all of them.
type bench struct {
	t     testing.TB
	began time.Time
	// scale is 1 for figures that mean something, and 0 to see that there would be some.
	scale float64
	table *table
	path  string // the table's file

	warm, cold *installation // the defaults, and the same with GLOVEBOX_WARM=0
}

// TestBench is `make bench`, which names the file for its table by GLOVEBOX_BENCH_TABLE.
// Without that it measures as little as it can, and proves that it would.
func TestBench(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("without its figures it shows only that it runs: make bench, make test-long")
	}
	b := &bench{t: t, began: time.Now(), table: &table{}, path: os.Getenv("GLOVEBOX_BENCH_TABLE")}
	if b.path == "" {
		b.path = filepath.Join(t.TempDir(), "table.md")
	} else {
		b.scale = scale(t)
	}
	b.warm = newInstallation(t)
	switch only := os.Getenv("GLOVEBOX_BENCH_ONLY"); only {
	case "":
		b.cold = newInstallation(t, "GLOVEBOX_WARM=0")
		b.memories(func() {
			b.loads(b.latencies())
			b.throughputs()
		})
		b.sessions()
		b.facades()
		b.gradings()
		b.uploads()
		b.accepting()
		b.snapshots()
	case "sessions":
		b.sessions()
	case "facades":
		b.facades()
	case "gradings":
		b.gradings()
	case "latencies":
		b.cold = newInstallation(t, "GLOVEBOX_WARM=0")
		b.latencies()
	case "loads":
		b.loads(map[string]times{podmanWay: b.podmanHellos()})
	case "snapshots":
		b.snapshots()
	case "throughputs":
		b.throughputs()
	case "uploads":
		b.uploads()
	default:
		t.Fatalf("GLOVEBOX_BENCH_ONLY is %q, want facades, gradings, latencies, loads, sessions, snapshots, throughputs, uploads, or nothing for all", only)
	}
	b.table.check("nothing of the sandbox's promises weakened", "the abuse and chaos suites pass with pools on", "`make test`, `make chaos`", notMeasured)
	b.write()
}

// write keeps the table so far: a run that is cut off keeps what it measured.
func (b *bench) write() {
	b.t.Helper()
	b.must(os.WriteFile(b.path, []byte(b.table.markdown(b.machine())), 0o644))
}

// scale is GLOVEBOX_BENCH_SCALE: how long to measure, as a share of what the figures need.
func scale(t *testing.T) float64 {
	t.Helper()
	s := os.Getenv("GLOVEBOX_BENCH_SCALE")
	if s == "" {
		return 1
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f <= 0 || f > 10 {
		t.Fatalf("GLOVEBOX_BENCH_SCALE is %q, want a number above 0, 10 at most", s)
	}
	return f
}

// says tells whoever waits what is measured now and how long that takes at most. What was measured before is in the table's file then.
func (b *bench) says(what string, takes time.Duration) {
	b.t.Helper()
	b.write()
	if !b.trial() {
		fmt.Fprintf(os.Stderr, "bench %4.0f s: %s, %.0f s\n", time.Since(b.began).Seconds(), what, takes.Seconds())
	}
}

// trial is whether nobody is to see the figures.
func (b *bench) trial() bool { return b.scale == 0 }

// scaled is how long to measure what needs d for its figures.
func (b *bench) scaled(d time.Duration) time.Duration { return time.Duration(float64(d) * b.scale) }

// times is how often to measure what needs n times for its figures.
func (b *bench) times(n int) int { return max(int(float64(n)*b.scale), 1) }

// must ends the bench: figures of what failed mean nothing.
func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// installation is a Glovebox with the defaults of its worker, and where that is measured.
type installation struct {
	*glovebox
	metrics string
	http    *waitingClient
}

func newInstallation(tb testing.TB, env ...string) *installation {
	tb.Helper()
	i := &installation{metrics: gbtest.Addr(tb)}
	// What is empty has its default.
	defaults := []string{"GLOVEBOX_POLL_MS=", "GLOVEBOX_CONCURRENCY=", "GLOVEBOX_WARM=", "GLOVEBOX_METRICS_ADDR=" + i.metrics}
	i.glovebox = start(tb, options{apiEnv: []string{"GLOVEBOX_FACADES=judge0,jobe,piston,e2b"}, workerEnv: append(defaults, env...)})
	tb.Cleanup(i.worker.Stop) // a killed one would leave its sandboxes to the next
	i.http = newWaitingClient(tb, i.url, i.token)
	return i
}
