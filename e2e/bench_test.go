package e2e

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
)

// BenchmarkColdHello compares, turn by turn in one run, submit → result through HTTP
// with `podman run --rm` under the same runsc, of the same image and code.
func BenchmarkColdHello(b *testing.B) {
	g := start(b, options{})
	set, err := runtimes.Embedded()
	if err != nil {
		b.Fatal(err)
	}
	python, _ := set.Lookup("python")
	const source = "print('hello')"
	podman := func() {
		cmd := exec.CommandContext(b.Context(), "podman", "run", "--rm", "--network=none", python.Image(), "python3", "-c", source)
		cmd.Env = append(gbtest.PodmanEnv(), "PATH=/usr/local/bin:/usr/bin:/bin", "HOME="+home(b))
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("podman run: %v\n%s", err, out)
		}
	}
	glovebox := func() {
		if r := g.wait(g.submit(job.Spec{Runtime: "python", Source: source}), time.Minute); r.Stdout != "hello\n" {
			b.Fatalf("got %+v", r)
		}
	}
	podman()
	glovebox()
	var ours, theirs []time.Duration
	for b.Loop() {
		theirs = append(theirs, took(podman))
		ours = append(ours, took(glovebox))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(milliseconds(median(ours)), "glovebox-ms")
	b.ReportMetric(milliseconds(median(theirs)), "podman-run-ms")
	b.ReportMetric(float64(median(ours))/float64(median(theirs)), "ratio")
}

func took(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
