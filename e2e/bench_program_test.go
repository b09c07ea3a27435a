package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
)

// program is what is run in each way.
type program struct {
	name, runtime, source, prints string
	artifact                      string // that it leaves
	// host is the interpreter that runs it without a sandbox, "" where it needs what only
	// the runtime's image has.
	host string
}

var (
	hello = program{name: "hello (Python)", runtime: "python", source: "print('hello')", prints: "hello\n", host: "python3"}
	chart = program{name: "chart (pandas, matplotlib)", runtime: "python", prints: "100\n", artifact: "chart.png", source: `import matplotlib.pyplot as plt
import pandas as pd

frame = pd.DataFrame({"x": range(100), "y": [n * n for n in range(100)]})
frame.plot(x="x", y="y", title="squares")
plt.savefig("chart.png")
print(len(frame))
`}
	nodeHello = program{name: "hello (Node)", runtime: "node", source: "console.log('hello')", prints: "hello\n"}
	compiled  = program{name: "compile and run (C)", runtime: "c", prints: "hello\n", source: `#include <stdio.h>

int main(void) {
	puts("hello");
}
`}
)

// way is one way to run a program. run may be called by lanes 0 to lanes-1 at once.
type way struct {
	name string
	run  func(lane int) error
}

const (
	warmWay   = "Glovebox, warm"
	coldWay   = "Glovebox, cold"
	podmanWay = "`podman run --rm`"
	runscWay  = "bare `runsc run`"
	hostWay   = "on the host"
)

// mounted is where podman and runsc find the program's directory. Every image has it: runsc
// by itself can't make it.
const mounted = "/mnt"

// on runs the program by an installation, and hands on each result.
func (p program) on(name string, i *installation, came func(job.Result)) way {
	return way{name, func(int) error {
		// The default of 10 s is little for a chart beside all other tests.
		patient := job.Limits{WallMS: 60_000, CPUMS: 60_000}
		r, err := i.http.run(i.tb.Context(), job.Spec{Runtime: p.runtime, Source: p.source, Limits: patient})
		if err != nil {
			return err
		}
		came(r)
		if r.Stdout != p.prints || p.artifact != "" && (len(r.Artifacts) != 1 || r.Artifacts[0].Name != p.artifact || r.Artifacts[0].Size == 0) {
			return fmt.Errorf("%s: got %q and %v", name, r.Stdout, r.Artifacts)
		}
		return nil
	}}
}

func nobody(job.Result) {}

// elsewhere is the ways to run the program without Glovebox, on so many lanes.
func (p program) elsewhere(tb testing.TB, lanes int) []way {
	tb.Helper()
	set, err := runtimes.Embedded()
	if err != nil {
		tb.Fatal(err)
	}
	r, ok := set.Lookup(p.runtime)
	if !ok {
		tb.Fatalf("there is no runtime %s", p.runtime)
	}
	dir, err := os.MkdirTemp("", "gb") //nolint:usetesting // Podman's namespaces have to reach it
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, r.File), []byte(p.source), 0o644); err != nil {
		tb.Fatal(err)
	}
	var env []string
	for name, value := range r.Env {
		env = append(env, name+"="+value)
	}
	compile, argv := r.Command(mounted+"/"+r.File, nil)
	if len(compile) > 0 { // one command, of words that no shell reads otherwise
		argv = []string{"sh", "-c", strings.Join(compile, " ") + " && " + strings.Join(argv, " ")}
	}
	all := []way{p.podman(tb, r.Image(), argv, env, dir), p.runsc(tb, r.Image(), argv, env, dir, lanes)}
	if p.host != "" {
		all = append(all, way{hostWay, func(int) error {
			return p.command(exec.CommandContext(tb.Context(), p.host, filepath.Join(dir, r.File)))
		}})
	}
	return all
}

func (p program) podman(tb testing.TB, image string, argv, env []string, dir string) way {
	tb.Helper()
	args := []string{"-v", dir + ":" + mounted + ":ro"}
	if p.artifact != "" {
		args = append(args, "--tmpfs", "/work", "--workdir", "/work")
	}
	for _, e := range env {
		args = append(args, "--env", e)
	}
	args = slices.Concat(args, []string{image}, argv)
	return way{podmanWay, func(int) error { return p.command(gbtest.StockPodmanRun(tb, args...)) }}
}

func (p program) runsc(tb testing.TB, image string, argv, env []string, dir string, lanes int) way {
	tb.Helper()
	bare := gbtest.NewBareRunsc(tb, image)
	bundle := bare.Bundle(argv, env, "/work", map[string]string{mounted: dir})
	shells := make([]*gbtest.PodmanShell, lanes)
	for lane := range shells {
		shells[lane] = bare.Shell()
		if _, err := shells[lane].Run("true"); err != nil { // it is there
			tb.Fatal(err)
		}
	}
	var runs atomic.Int64
	return way{runscWay, func(lane int) error {
		out, err := shells[lane].Run(bare.Command(bundle, fmt.Sprint("bench", runs.Add(1))))
		return p.printed(runscWay, out, err)
	}}
}

func (p program) command(cmd *exec.Cmd) error {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, errs.String())
	}
	return p.printed(strings.Join(cmd.Args, " "), out.String(), err)
}

func (p program) printed(by, out string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", by, err)
	}
	if out != p.prints {
		return fmt.Errorf("%s printed %q, want %q", by, out, p.prints)
	}
	return nil
}

// took is how long a run took.
func (w way) took() (time.Duration, error) {
	began := time.Now()
	err := w.run(0)
	return time.Since(began), err
}
